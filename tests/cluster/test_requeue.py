"""A job that a node cannot give its vGPUs now tries elsewhere, by Slurm's own means."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import Clusters
from tests.cluster.running import RunningCluster
from tests.cluster.waiting import admin_comment, until, until_count

pytestmark = pytest.mark.slurm_interface

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
    bindings = until_count(cluster, node, len(jobs))
    leave = [binding["job"] for binding in bindings if binding["vgpu"]["gpu"] == 0]
    cluster.check("scancel", *map(str, leave))
    until_count(cluster, node, 2)


def until_noted(cluster: RunningCluster, job: int) -> str:
    """The comment of the job once it is back in the queue with a reason."""

    def look() -> str:
        comment = admin_comment(cluster, job)
        return comment if "why=" in comment and cluster.job(job)["JobState"] == "PENDING" else ""

    return until(look, f"job {job} is back in the queue with a reason")


def test_a_batch_job_starts_on_another_node_by_itself(crowded: RunningCluster) -> None:
    job = crowded.submit("echo ran on $SLURMD_NODENAME", "--gres=vgpu:2", "--open-mode=append")
    ended = crowded.wait(job, timeout=90)
    assert ended.state == "COMPLETED"
    assert "ran on n2" in ended.output
    assert "node n1 has no room now" in ended.output
    assert "goes back to the queue and avoids this node (try 1 of 3)" in ended.output
    assert crowded.job(job)["ExcNodeList"] == "n1"
    assert admin_comment(crowded, job).startswith("vgpu{tries=1;gpus=n2:")


def test_a_job_that_no_other_node_could_take_is_held_with_the_reason(
    crowded: RunningCluster,
) -> None:
    job = crowded.submit("echo ran", "--gres=vgpu:2", "--exclude=n2")
    comment = until_noted(crowded, job)
    fields = crowded.job(job)
    assert fields["Priority"] == "0", fields
    assert fields["ExcNodeList"] == "n2"
    assert comment.startswith("vgpu{tries=1;why=node n1 has no room now")


def test_a_job_that_wants_its_node_is_held(crowded: RunningCluster) -> None:
    job = crowded.submit("echo ran", "--gres=vgpu:2", "-w", "n1")
    until_noted(crowded, job)
    assert crowded.job(job)["Priority"] == "0"


def test_a_job_whose_feature_no_other_node_has_is_held(crowded: RunningCluster) -> None:
    job = crowded.submit("echo ran", "--gres=vgpu:2", "--constraint=only&vgpu-nvlink2")
    until_noted(crowded, job)
    assert crowded.job(job)["Priority"] == "0"


def test_the_sites_own_comment_survives(crowded: RunningCluster) -> None:
    job = crowded.submit("echo ran", "--gres=vgpu:2", "--exclude=n2", "--begin=now+2")
    crowded.check("scontrol", "update", f"JobId={job}", "AdminComment=rack 7, k=v")
    assert until_noted(crowded, job).startswith("rack 7, k=v vgpu{tries=1;why=")


def test_each_task_of_an_array_is_requeued_for_itself(crowded: RunningCluster) -> None:
    options = ("--gres=vgpu:2", "--array=0-1", "--open-mode=append")
    array = crowded.submit("echo ran on $SLURMD_NODENAME", *options)
    until(lambda: not crowded.check("squeue", "-h", "-u", "alice"), "both tasks are over")
    outputs = [crowded.path(f"/home/alice/{array}_{i}.out").read_text() for i in range(2)]
    assert [text.count("ran on n2") for text in outputs] == [1, 1], outputs
    assert "".join(outputs).count("try 1 of 3") >= 1
    assert "try 2 of 3" not in "".join(outputs)


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
    until(
        lambda: all(crowded.job(job)["Priority"] == "0" for job in jobs),
        "all are held",
        timeout=120,
    )
    assert set(crowded.states().values()) <= {"idle", "mixed"}
