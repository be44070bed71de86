"""Memory taken past the shim is seen through the driver, and the step that took it is ended."""

from tests.cluster.running import RunningCluster
from tests.cluster.waiting import until

# A user namespace of one's own can take the preload off: what is started there knows no shim.
PAST_THE_SHIM = (
    "unshare -Urm sh -c 'mount --bind /dev/null /etc/ld.so.preload && "
    "exec cuprobe devices alloc={size} sleep={ms}'"
)
ON_N1 = ("-w", "n1", "--gres=vgpu:1")
SENTENCE = "past the quota of 4096 MiB of its vGPU"


def test_a_job_that_sheds_the_shim_and_takes_more_is_ended_and_told_why(
    cluster: RunningCluster,
) -> None:
    job = cluster.sbatch(PAST_THE_SHIM.format(size="6G", ms=600_000), *ON_N1)
    assert job.state == "FAILED"
    assert SENTENCE in job.output, job.output
    assert "of node n1" in job.output
    until(
        lambda: not any(gpu["used"] for gpu in cluster.stat("n1")["gpus"]),
        "the memory is back",
    )
    assert set(cluster.states().values()) == {"idle"}


def test_only_the_guilty_step_of_a_job_is_ended(cluster: RunningCluster) -> None:
    guilty = PAST_THE_SHIM.format(size="6G", ms=600_000)
    script = f'srun --overlap sh -c "{guilty}"\necho survived; cuprobe alloc=1G'
    job = cluster.sbatch(script, *ON_N1)
    assert job.state == "COMPLETED", job.output
    log = cluster.log("n1", "vgpud")
    assert any(f"job {job.id}.0: its processes" in line for line in log.splitlines()), log
    assert '"action": "alloc", "result": 0' in job.output.split("survived")[1]


def test_who_sheds_the_shim_and_stays_within_the_quota_is_left_alone(
    cluster: RunningCluster,
) -> None:
    done = cluster.srun(*ON_N1, "sh", "-c", PAST_THE_SHIM.format(size="3G", ms=2500))
    assert done.returncode == 0, done.stderr
    assert '"total": 42949672960' in done.stdout  # it did shed the shim
