"""Memory taken past the shim is seen through the driver, and the step that took it is ended."""

from tests.cluster.running import RunningCluster
from tests.cluster.waiting import until

# A user namespace of one's own can take the preload off: what is started there knows no shim.
PAST_THE_SHIM = (
    "unshare -Urm sh -c 'mount --bind /dev/null /etc/ld.so.preload && "
    "exec cuprobe devices alloc={size} sleep={ms}'"
)
SENTENCE = "past the quota of 4096 MiB of its vGPU"


def test_a_step_that_sheds_the_shim_and_takes_more_is_ended_and_told_why(
    cluster: RunningCluster,
) -> None:
    command = PAST_THE_SHIM.format(size="6G", ms=600_000)
    done = cluster.srun("-w", "n1", "--gres=vgpu:1", "sh", "-c", command)
    assert done.returncode != 0
    assert SENTENCE in done.stderr, done.stderr
    assert "GPU 0 of node n1" in done.stderr
    until(
        lambda: not any(gpu["used"] for gpu in cluster.stat("n1")["gpus"]),
        "the memory is back",
    )
    assert set(cluster.states().values()) == {"idle"}


def test_only_the_guilty_step_of_a_job_is_ended(cluster: RunningCluster) -> None:
    guilty = PAST_THE_SHIM.format(size="6G", ms=600_000)
    script = f'srun --overlap sh -c "{guilty}"\necho survived; cuprobe alloc=1G'
    job = cluster.sbatch(script, "-w", "n1", "--gres=vgpu:1")
    assert job.state == "COMPLETED", job.output
    assert SENTENCE in job.output
    assert "survived" in job.output
    assert '"action": "alloc", "result": 0' in job.output.split("survived")[1]


def test_who_sheds_the_shim_and_stays_within_the_quota_is_left_alone(
    cluster: RunningCluster,
) -> None:
    command = PAST_THE_SHIM.format(size="3G", ms=2500)
    done = cluster.srun("-w", "n1", "--gres=vgpu:1", "sh", "-c", command)
    assert done.returncode == 0, done.stderr
    assert '"total": 42949672960' in done.stdout  # it did shed the shim
