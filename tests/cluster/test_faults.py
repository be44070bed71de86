"""Whatever dies at whatever moment: no byte of quota is lost or stuck, and nobody else notices."""

import time
from collections.abc import Callable

import pytest

from tests.cluster.running import RunningCluster, lines

QUOTA = 4 << 30
CONTEXT = 256 << 20
ROOM = QUOTA - CONTEXT
ON_N1 = ("--gres=vgpu:1", "-w", "n1")

# Four victims at a time, each killed within 60 ms of its start: while it starts, attaches,
# allocates or frees. What is free is asked when they are all gone.
KILL_9 = f"""
victims() {{
    for i in $(seq 50); do
        cuprobe alloc=64M churn=1M:1000000 >/dev/null 2>&1 &
        sleep 0.0$((RANDOM % 50 + 10))
        kill -9 $!
        wait $! 2>/dev/null
    done
}}
victims & victims & victims & victims & wait
cuprobe info alloc={ROOM}
"""


def until(true: Callable[[], bool]) -> None:
    """Wait for what has to become true."""
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def assert_nothing_is_held(cluster: RunningCluster, node: str) -> None:
    until(lambda: cluster.vgpus(node) == [])
    assert [gpu["used"] for gpu in cluster.stat(node)["gpus"]] == [0, 0, 0, 0]
    assert cluster.states() == {"n1": "idle", "n2": "idle"}


def test_kill_9_of_tasks_200_times_loses_no_byte(cluster: RunningCluster) -> None:
    job = cluster.sbatch(KILL_9, *ON_N1)
    info, whole = lines(job.output)
    assert info == {"action": "info", "result": 0, "free": ROOM, "total": QUOTA}
    assert whole["result"] == 0
    assert_nothing_is_held(cluster, "n1")


def test_scancel_gives_everything_back(cluster: RunningCluster) -> None:
    jobs = [cluster.submit(f"cuprobe alloc={ROOM} sleep=600000", *ON_N1) for _ in range(4)]
    until(lambda: sum(gpu["used"] for gpu in cluster.stat("n1")["gpus"]) == 4 * QUOTA)
    cluster.check("scancel", *map(str, jobs))
    cluster.settle()
    assert_nothing_is_held(cluster, "n1")


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_running_step_survives_a_restart_of_slurmd(cluster: RunningCluster, how: str) -> None:
    with cluster.holding(
        "alloc=1G", "wait", f"alloc={ROOM - (1 << 30)}", "alloc=512", options=ON_N1
    ) as held:
        cluster.ctl("n1", how, "slurmd")
        cluster.ctl("n1", "start", "slurmd")
        assert [line["result"] for line in held.go_on()] == [0, 2]
        assert [vgpu["charged"] for vgpu in cluster.vgpus("n1")] == [QUOTA]
    cluster.settle()
    assert_nothing_is_held(cluster, "n1")


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_running_steps_survive_a_restart_of_vgpud(cluster: RunningCluster, how: str) -> None:
    rest = f"alloc={ROOM - (1 << 30)}"
    actions = ("alloc=1G", "wait", "alloc=1G", "free", "alloc=1G", "wait", rest, "alloc=512")
    with (
        cluster.holding(*actions, options=ON_N1) as first,
        cluster.holding(*actions, options=ON_N1) as second,
    ):
        cluster.ctl("n1", how, "vgpud")
        assert [line["result"] for line in first.go_on()] == [0, 0, 0]  # while nobody is there
        cluster.ctl("n1", "start", "vgpud")
        assert [line["result"] for line in second.go_on()] == [0, 0, 0]
        assert [vgpu["charged"] for vgpu in cluster.vgpus("n1")] == [CONTEXT + (1 << 30)] * 2
        assert [line["result"] for line in first.go_on()] == [0, 2]
        assert [line["result"] for line in second.go_on()] == [0, 2]
        assert [vgpu["charged"] for vgpu in cluster.vgpus("n1")] == [QUOTA, QUOTA]
    cluster.settle()
    assert_nothing_is_held(cluster, "n1")


def test_vgpud_killed_again_and_again_disturbs_no_job(cluster: RunningCluster) -> None:
    job = cluster.submit("cuprobe alloc=1G churn=1M:300000 free info", *ON_N1)
    while cluster.job(job)["JobState"] in ("PENDING", "RUNNING"):
        cluster.ctl("n1", "kill", "vgpud")
        cluster.ctl("n1", "start", "vgpud")
    done = cluster.wait(job)
    assert [line["result"] for line in lines(done.output)] == [0, 0, 0, 0], done.output
    assert lines(done.output)[-1]["free"] == ROOM
    assert_nothing_is_held(cluster, "n1")
