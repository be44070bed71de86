"""Whatever is killed or restarted: no other job is hurt, and nothing is lost."""

from collections.abc import Sequence

import pytest

from tests.cluster.running import RunningCluster, lines
from tests.cluster.test_steps import QUOTA
from tests.cluster.waiting import until, until_bound, until_count

pytestmark = pytest.mark.slurm_interface

CONTEXT = 256 << 20  # what the simulator takes for one


def held(cluster: RunningCluster, node: str) -> int:
    """Bytes that the simulated GPUs of the node hold for anybody."""
    return sum(gpu["used"] for gpu in cluster.stat(node)["gpus"])


def start_worker(cluster: RunningCluster, *options: str) -> int:
    """A batch job whose step works for a while, and then tells how it went."""
    churn = "srun cuprobe alloc=1G churn=256M:3000 launch=200000:3000 free"
    job = cluster.submit(churn, "-w", "n1", "--gres=vgpu:1", *options)
    cluster.wait_for_state(job, "RUNNING")
    until_bound(cluster, "n1", job)
    until(lambda: held(cluster, "n1") >= 1 << 30, "the step has its memory")
    return job


def check_unhurt(cluster: RunningCluster, job: int) -> None:
    ended = cluster.wait(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), ended.output
    assert [probe["result"] for probe in lines(ended.output)] == [0, 0, 0, 0]
    until_count(cluster, "n1", 0)
    assert held(cluster, "n1") == 0


def test_processes_that_are_killed_at_any_moment_lose_no_quota(cluster: RunningCluster) -> None:
    script = """
        for i in $(seq 200); do
            cuprobe alloc=1G churn=512M:1000000 >/dev/null & pid=$!
            sleep 0.0$((RANDOM % 40)); kill -9 $pid; wait $pid 2>/dev/null
        done
        cuprobe fill=64M
    """
    job = cluster.sbatch(script, "--gres=vgpu:1", timeout=120)
    (fill,) = lines(job.output)
    assert fill["bytes"] == QUOTA - CONTEXT
    assert held(cluster, "n1") == held(cluster, "n2") == 0


@pytest.mark.parametrize(
    "events",
    [
        [("restart", "slurmd")],
        [("kill", "vgpud"), ("start", "vgpud")],
        [("kill", "slurmd"), ("kill", "vgpud"), ("start", "vgpud"), ("start", "slurmd")],
    ],
    ids=lambda events: " ".join(f"{action}-{daemon}" for action, daemon in events),
)
def test_a_running_step_does_not_notice(
    cluster: RunningCluster, events: Sequence[tuple[str, str]]
) -> None:
    job = start_worker(cluster)
    for action, daemon in events:
        cluster.ctl("n1", action, daemon)
    check_unhurt(cluster, job)


def test_a_job_that_ends_while_vgpud_is_down_leaves_nothing(cluster: RunningCluster) -> None:
    job = cluster.submit("srun cuprobe alloc=1G sleep=60000", "-w", "n1", "--gres=vgpu:1")
    until_bound(cluster, "n1", job)
    cluster.ctl("n1", "kill", "vgpud")
    cluster.check("scancel", str(job))
    cluster.wait(job)
    cluster.ctl("n1", "start", "vgpud")
    again = cluster.srun("-w", "n1", "--gres=vgpu:1", "cuprobe", "fill=64M")
    assert lines(again.stdout)[0]["bytes"] == QUOTA - CONTEXT
    until(lambda: cluster.run("squeue", "-h").stdout == "", "the job is gone")
    assert held(cluster, "n1") == 0


@pytest.mark.parametrize("how", ["scancel", "kill"])
def test_a_job_that_is_ended_gives_all_back(cluster: RunningCluster, how: str) -> None:
    job = start_worker(cluster)
    if how == "scancel":
        cluster.check("scancel", str(job))
    else:
        pids = cluster.check("scontrol", "listpids", f"{job}.0", "n1", node="n1").splitlines()[1:]
        cluster.check("kill", "-9", *(line.split()[0] for line in pids))
    assert cluster.wait(job).state in ("CANCELLED", "FAILED")
    until_count(cluster, "n1", 0)
    until(lambda: held(cluster, "n1") == 0, "the GPUs are empty")
