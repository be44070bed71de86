"""GPU time through Slurm: what a user may ask for, what the site decides, what can be changed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.running import RunningCluster

PLAN = Path(__file__).with_name("time.plan.yaml")


@pytest.fixture
def one_card(clusters: Callable[..., RunningCluster]) -> Iterator[RunningCluster]:
    cluster = clusters("--nodes", "1", "--machine", "single-16g", "--plan", str(PLAN))
    yield cluster
    cluster.settle()


def bound(cluster: RunningCluster, job: int) -> dict[str, Any]:
    """The job's vGPU, once vgpud knows it and its job's record has been read."""
    for _ in range(200):
        found = [vgpu for vgpu in cluster.vgpus("n1") if vgpu["job"] == job]
        if found and found[0]["burst_class"]:
            return found[0]
    raise AssertionError(f"job {job} has no vGPU with a burst class")


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--vgpu-workload=gnn", "cnn, nlp is what this site knows"),
        ("--vgpu-slice=60ms", "5ms to 50ms is what this site allows"),
    ],
)
def test_what_the_site_does_not_know_or_allow_is_refused_at_submit(
    one_card: RunningCluster, option: str, says: str
) -> None:
    for command in (["sbatch", "--wrap", "true"], ["srun", "true"], ["salloc", "true"]):
        done = one_card.run(command[0], "--gres=vgpu:1", option, *command[1:], user="alice")
        assert done.returncode != 0
        assert says in done.stderr.splitlines()[0], done.stderr
    assert one_card.check("squeue", "-h") == ""


def test_a_workload_sets_the_slice_and_the_partition_the_burst_class(
    one_card: RunningCluster,
) -> None:
    job = one_card.submit("sleep 60", "--gres=vgpu:1", "--vgpu-workload=cnn")
    vgpu = bound(one_card, job)
    assert (vgpu["slice_us"], vgpu["workload"]) == (15000, "cnn")
    assert vgpu["burst_class"] == "urgent"


def test_a_policy_is_changed_while_the_job_runs(one_card: RunningCluster) -> None:
    job = one_card.submit("sleep 60", "--gres=vgpu:1")
    assert bound(one_card, job)["slice_us"] == 10000
    runtime = ["--runtime-dir", "/run/vgpu/n1"]
    changes = ["--slice", "20ms", "--max-sms", "20", *runtime]
    one_card.check("vgpu", "policy", "set", str(job), *changes)
    vgpu = bound(one_card, job)
    assert (vgpu["slice_us"], vgpu["vgpu"]["max_sms"]) == (20000, 20)
    for wrong in (["--slice", "60ms"], ["--workload", "gnn"], ["--max-sms", "5"], ["--burst", "x"]):
        done = one_card.run("vgpu", "policy", "set", str(job), *wrong, *runtime)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert bound(one_card, job)["slice_us"] == 20000
