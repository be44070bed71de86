"""What each kind of job and step sees: the vGPUs that Slurm gave it, and only those."""

from typing import Any

import pytest

from tests.cluster.running import RunningCluster, lines
from tests.cluster.waiting import admin_comment, until_bound, until_count

pytestmark = pytest.mark.slurm_interface

NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
QUOTA = 4 << 30
OPEN_ALL = "for i in 0 1 2 3; do (: <>/dev/nvidia$i) 2>/dev/null && echo opened $i; done; true"


def seen(printed: str) -> list[str]:
    """UUIDs of the devices that each cuprobe in this output saw, joined per process."""
    probes = [probe for probe in lines(printed) if probe["action"] == "devices"]
    return [",".join(device["uuid"] for device in probe["devices"]) for probe in probes]


def devices(printed: str) -> list[dict[str, Any]]:
    """The devices that the only cuprobe in this output saw."""
    (probe,) = [probe for probe in lines(printed) if probe["action"] == "devices"]
    assert probe["result"] == 0
    return list(probe["devices"])


def test_a_batch_script_sees_as_many_gpus_as_it_has_vgpus(cluster: RunningCluster) -> None:
    job = cluster.sbatch("cuprobe devices", "--gres=vgpu:2")
    assert (job.state, job.exit_code) == ("COMPLETED", 0), job.output
    first, second = devices(job.output)
    assert first["uuid"] != second["uuid"]
    assert [first["total"], second["total"]] == [QUOTA, QUOTA]


def test_a_step_without_a_wish_of_its_own_sees_what_its_job_has(cluster: RunningCluster) -> None:
    job = cluster.sbatch("cuprobe devices; srun cuprobe devices", "--gres=vgpu:2")
    script, step = seen(job.output)
    assert script == step
    assert script.count("GPU-") == 2


def test_steps_side_by_side_get_different_vgpus(cluster: RunningCluster) -> None:
    probe = "sh -c 'echo $SLURM_STEP_VGPUS; cuprobe devices sleep=500'"
    one = f"srun --exact -n1 -c1 --gres=vgpu:1 {probe}"
    job = cluster.sbatch(f"{one} & {one} & wait", "--gres=vgpu:2", "-n2")
    slots = [line for line in job.output.splitlines() if line.isdigit()]
    gpus = [line for line in job.output.splitlines() if '"devices"' in line]
    assert len(set(slots)) == 2, job.output
    assert len(set(gpus)) == 2, job.output
    assert all(line.count("GPU-") == 1 for line in gpus)


def test_a_step_with_gres_none_has_no_gpu(cluster: RunningCluster) -> None:
    script = f"srun --gres=none sh -c 'cuprobe devices; {OPEN_ALL}; env | grep VGPUS; true'"
    job = cluster.sbatch(script, "--gres=vgpu:2", "-w", "n1")
    (probe,) = lines(job.output)
    assert (probe["result"], probe["devices"]) == (NO_DEVICE, [])
    assert "opened" not in job.output
    assert "VGPUS=" not in job.output


def test_an_overlapping_step_shares_the_vgpus_of_the_one_that_runs(cluster: RunningCluster) -> None:
    long = "srun sh -c 'cuprobe devices sleep=1000'"
    job = cluster.sbatch(
        f"{long} & sleep 0.3; srun --overlap cuprobe devices; wait", "--gres=vgpu:1"
    )
    first, second = seen(job.output)
    assert first == second
    assert first.count("GPU-") == 1


def test_processes_of_one_vgpu_share_one_quota(cluster: RunningCluster) -> None:
    holder = "srun -n1 cuprobe alloc=2G sleep=2000"
    script = f"{holder} & sleep 0.8; srun --overlap -n1 cuprobe devices fill=64M; wait"
    job = cluster.sbatch(script, "--gres=vgpu:1")
    probes = {probe["action"]: probe for probe in lines(job.output)}
    (device,) = probes["devices"]["devices"]
    assert device["total"] == QUOTA
    assert probes["alloc"]["result"] == 0
    assert probes["fill"]["result"] == 2  # CUDA_ERROR_OUT_OF_MEMORY
    assert 1 << 30 < probes["fill"]["bytes"] < 2 << 30


def test_the_interactive_step_of_salloc_has_the_jobs_vgpus(cluster: RunningCluster) -> None:
    done = cluster.run(
        "salloc",
        "--gres=vgpu:2",
        user="alice",
        stdin="cuprobe devices; srun --overlap cuprobe devices",
    )
    shell, step = seen(done.stdout)
    assert shell == step, done.stderr
    assert shell.count("GPU-") == 2


def test_every_task_of_an_array_has_a_vgpu_of_its_own(cluster: RunningCluster) -> None:
    script = "echo slot $SLURM_JOB_VGPUS; cuprobe devices sleep=2000"
    first = cluster.submit(script, "--gres=vgpu:1", "--array=0-3", "-w", "n1")
    bindings = until_count(cluster, "n1", 4)
    ended = [cluster.wait(binding["job"]) for binding in bindings]
    assert first in {job.id for job in ended}
    assert {job.output.split()[1] for job in ended} == {"0", "1", "2", "3"}
    assert all(len(devices(job.output)) == 1 for job in ended)


def test_a_job_on_two_nodes_has_its_vgpus_on_each(cluster: RunningCluster) -> None:
    job = cluster.sbatch(
        "srun sh -c 'cuprobe devices | sed s/^/$SLURMD_NODENAME:/'", "-N2", "--gres=vgpu:2"
    )
    assert job.exit_code == 0, job.output
    by_node = dict(line.split(":", 1) for line in job.output.splitlines() if line.startswith("n"))
    assert set(by_node) == {"n1", "n2"}
    assert [line.count("GPU-") for line in by_node.values()] == [2, 2]


def test_each_task_sees_its_own_gpu_first_and_the_others_after_it(cluster: RunningCluster) -> None:
    done = cluster.srun("-n2", "-N1", "--gres=vgpu:2", "-l", "printenv", "CUDA_VISIBLE_DEVICES")
    first, second = sorted(done.stdout.splitlines())
    one, two = first.removeprefix("0: ").split(",")
    assert second == f"1: {two},{one}"
    assert one != two


def test_a_task_that_wants_so_sees_its_own_vgpu_only(cluster: RunningCluster) -> None:
    done = cluster.srun("-n2", "-N1", "--gres=vgpu:2", "--vgpu-bind=own", "cuprobe", "devices")
    probes = seen(done.stdout)
    assert sorted(probe.count("GPU-") for probe in probes) == [1, 1]
    assert len(set(probes)) == 2


def test_the_placement_is_in_the_jobs_admin_comment(cluster: RunningCluster) -> None:
    job = cluster.submit("sleep 30", "--gres=vgpu:2", "-w", "n1")
    cluster.wait_for_state(job, "RUNNING")
    bound = {str(vgpu["slot"]): str(vgpu["gpu"]) for vgpu in until_bound(cluster, "n1", job)}
    comment = admin_comment(cluster, job)
    content = comment.removeprefix("vgpu{").removesuffix("}")
    fields = dict(field.split("=") for field in content.split(";"))
    node, gpus = fields["gpus"].split(":")
    assert node == "n1"
    assert dict(zip(fields["slots"].split(","), gpus.split(","), strict=True)) == bound


def test_a_job_says_nothing_that_the_user_did_not_say(cluster: RunningCluster) -> None:
    for options in ([], ["--gres=vgpu:1"], ["--gres=vgpu:2", "-n2"]):
        done = cluster.srun("-N1", *options, "true")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_exclusive_job_has_all_that_the_node_has(cluster: RunningCluster) -> None:
    job = cluster.sbatch("cuprobe devices", "--exclusive", "-w", "n1")
    assert (job.state, job.exit_code) == ("COMPLETED", 0), job.output
    found = devices(job.output)
    slots = int(cluster.job(job.id)["JOB_GRES"].rsplit(":", 1)[1])
    assert len(found) == 4
    assert sum(device["total"] for device in found) == slots * QUOTA
