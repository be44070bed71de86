"""A job that a node cannot give its vGPUs now tries elsewhere, by Slurm's own means."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import Clusters
from tests.cluster.running import RunningCluster

PLAN = Path(__file__).with_name("small.plan.yaml")


@pytest.fixture
def crowded(clusters: Clusters) -> Iterator[RunningCluster]:
    """Nodes with two GPUs of two vGPUs each; on n1 all that is free is on one GPU."""
    cluster = clusters("--plan", str(PLAN), "--machine", "dual-nv2")
    crowd(cluster, "n1")
    yield cluster
    cluster.settle()


def crowd(cluster: RunningCluster, node: str) -> None:
    jobs = [cluster.submit("sleep 600", "-w", node, "--gres=vgpu:1", user="bob") for _ in range(4)]
    for job in jobs:
        cluster.wait_for_state(job, "RUNNING")
    wait_bound(cluster, node, 4)
    gpu_of = {vgpu["job"]: vgpu["gpu"] for vgpu in cluster.vgpus(node)}
    leave = [job for job in jobs if gpu_of[job] == 0]
    cluster.check("scancel", *map(str, leave))
    wait_bound(cluster, node, 2)


def wait_bound(cluster: RunningCluster, node: str, count: int) -> None:
    for _ in range(400):
        if len(cluster.vgpus(node)) == count:
            return
    raise AssertionError(cluster.vgpus(node))


def test_a_batch_job_starts_on_another_node_by_itself(crowded: RunningCluster) -> None:
    crowded.run("scontrol", "update", "NodeName=n1", "Weight=1")
    crowded.run("scontrol", "update", "NodeName=n2", "Weight=10")
    job = crowded.submit("echo ran on $SLURMD_NODENAME", "--gres=vgpu:2")
    ended = crowded.wait(job, timeout=90)
    assert ended.state == "COMPLETED"
    assert "ran on n2" in ended.output
    assert "node n1 has no room now" in ended.output
    fields = crowded.job(job)
    assert fields["ExcNodeList"] == "n1"
    assert "tries=1" in fields["AdminComment"]
    assert "gpus=n2:" in fields["AdminComment"]


def test_a_job_that_no_other_node_could_take_is_held_with_the_reason(
    crowded: RunningCluster,
) -> None:
    job = crowded.submit("echo ran", "--gres=vgpu:2", "--exclude=n2")
    for _ in range(400):
        fields = crowded.job(job)
        if fields["JobState"] == "PENDING" and "why=" in fields.get("AdminComment", ""):
            break
    assert (fields["JobState"], fields["Priority"]) == ("PENDING", "0"), fields
    assert "why=node n1 has no room now" in fields["AdminComment"]
    assert fields["ExcNodeList"] == "n2"


def test_a_job_that_wants_its_node_is_held(crowded: RunningCluster) -> None:
    job = crowded.submit("echo ran", "--gres=vgpu:2", "-w", "n1")
    for _ in range(400):
        fields = crowded.job(job)
        if fields["JobState"] == "PENDING" and fields["Priority"] == "0":
            break
    assert fields["Priority"] == "0", fields


def test_the_sites_own_comment_survives(crowded: RunningCluster) -> None:
    job = crowded.submit("echo ran", "--gres=vgpu:2", "--exclude=n2", "--begin=now+2")
    crowded.check("scontrol", "update", f"JobId={job}", "AdminComment=rack 7")
    for _ in range(400):
        fields = crowded.job(job)
        if "why=" in fields.get("AdminComment", ""):
            break
    assert fields["AdminComment"].startswith("rack 7 vgpu{"), fields


@pytest.mark.parametrize("how", ["srun", "no-requeue"])
def test_what_cannot_be_requeued_fails_with_the_sentence(crowded: RunningCluster, how: str) -> None:
    if how == "srun":
        done = crowded.srun("-w", "n1", "--gres=vgpu:2", "echo", "ran")
        code, text = done.returncode, done.stdout + done.stderr
    else:
        job = crowded.sbatch("echo ran", "-w", "n1", "--gres=vgpu:2", "--no-requeue")
        code, text = job.exit_code, job.output
    assert code != 0
    assert "error: vgpu: node n1 has no room now" in text.splitlines()[0]
    assert "ran\n" not in text


def test_colocated_slots_find_room_where_different_gpus_do_not(crowded: RunningCluster) -> None:
    done = crowded.srun(
        "-w", "n1", "--gres=vgpu:2", "--vgpu-colocate", "printenv", "CUDA_VISIBLE_DEVICES"
    )
    assert (done.returncode, done.stdout.count("GPU-")) == (0, 1), done.stderr


def test_many_such_jobs_at_once_drain_no_node(crowded: RunningCluster) -> None:
    crowd(crowded, "n2")
    jobs = [crowded.submit("echo ran", "--gres=vgpu:2") for _ in range(24)]
    held: set[int] = set()
    for _ in range(1200):
        held = {job for job in jobs if crowded.job(job)["Priority"] == "0"}
        if len(held) == len(jobs):
            break
    assert len(held) == len(jobs)
    assert set(crowded.states().values()) <= {"idle", "mixed"}
