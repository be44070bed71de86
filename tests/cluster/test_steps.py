"""What each kind of job and step sees: the vGPUs that Slurm gave it, and only those."""

from typing import Any

from tests.cluster.running import RunningCluster, lines

NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
QUOTA = 4 << 30


def seen(printed: str) -> list[str]:
    """UUIDs of the devices that each cuprobe in this output saw, joined per process."""
    return [",".join(device["uuid"] for device in probe["devices"]) for probe in lines(printed)]


def devices(printed: str) -> list[dict[str, Any]]:
    """The devices that the only cuprobe in this output saw."""
    (probe,) = lines(printed)
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
    one = "srun --exact -n1 -c1 --gres=vgpu:1 sh -c 'echo $SLURM_STEP_VGPUS; cuprobe devices sleep=500'"
    job = cluster.sbatch(f"{one} & {one} & wait", "--gres=vgpu:2", "-n2")
    slots = [line for line in job.output.splitlines() if line.isdigit()]
    gpus = [line for line in job.output.splitlines() if '"devices"' in line]
    assert len(set(slots)) == 2, job.output
    assert len(set(gpus)) == 2, job.output
    assert all(line.count("GPU-") == 1 for line in gpus)


def test_a_step_with_gres_none_has_no_gpu(cluster: RunningCluster) -> None:
    script = "srun --gres=none sh -c 'cuprobe devices; for i in 0 1 2 3; do : <>/dev/nvidia$i; done; env | grep VGPUS'"
    job = cluster.sbatch(script, "--gres=vgpu:2")
    (probe,) = lines(job.output)
    assert (probe["result"], probe["devices"]) == (NO_DEVICE, [])
    assert job.output.count("Permission denied") == 4
    assert "VGPUS=" not in job.output


def test_an_overlapping_step_shares_the_vgpus_of_the_one_that_runs(cluster: RunningCluster) -> None:
    script = (
        "srun sh -c 'cuprobe devices sleep=1000' & sleep 0.3; srun --overlap cuprobe devices; wait"
    )
    job = cluster.sbatch(script, "--gres=vgpu:1")
    probes = seen(job.output)
    assert len([probe for probe in probes if probe]) == 2
    assert len({probe for probe in probes if probe}) == 1


def test_processes_of_one_vgpu_share_one_quota(cluster: RunningCluster) -> None:
    script = "srun -n1 cuprobe fill=64M sleep=1500 & sleep 0.8; srun --overlap -n1 cuprobe info alloc=64M; wait"
    job = cluster.sbatch(script, "--gres=vgpu:1")
    probes = {probe["action"]: probe for probe in lines(job.output)}
    assert probes["alloc"]["result"] == 2, job.output  # CUDA_ERROR_OUT_OF_MEMORY
    assert probes["fill"]["result"] == 2, job.output
    assert probes["info"]["total"] == QUOTA


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
    first = cluster.submit(
        "echo slot $SLURM_JOB_VGPUS; cuprobe devices; sleep 2",
        "--gres=vgpu:1",
        "--array=0-3",
        "-w",
        "n1",
    )
    jobs = cluster.check("squeue", "-h", "-r", "-j", str(first), "-o", "%A").split()
    ended = [cluster.wait(int(job)) for job in jobs]
    slots = {line for job in ended for line in job.output.splitlines() if line.startswith("slot ")}
    assert len(ended) == len(slots) == 4, ended
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
    bound = {str(vgpu["slot"]): str(vgpu["gpu"]) for vgpu in wait_bound(cluster, "n1", job)}
    comment = cluster.job(job)["AdminComment"]
    fields = dict(
        field.split("=") for field in comment.strip().removeprefix("vgpu{").rstrip("}").split(";")
    )
    node, gpus = fields["gpus"].split(":")
    assert node == "n1"
    assert dict(zip(fields["slots"].split(","), gpus.split(","), strict=True)) == bound


def wait_bound(cluster: RunningCluster, node: str, job: int) -> list[dict[str, Any]]:
    """The job's vGPUs on the node once its batch script has begun."""
    for _ in range(200):
        found = [vgpu for vgpu in cluster.vgpus(node) if vgpu["job"] == job]
        if found and "vgpu{" in cluster.job(job).get("AdminComment", ""):
            return found
    raise AssertionError(f"job {job} has no vGPU on {node}: {cluster.job(job)}")


def test_a_job_says_nothing_that_the_user_did_not_say(cluster: RunningCluster) -> None:
    for options in ([], ["--gres=vgpu:1"], ["--gres=vgpu:2", "-n2"]):
        done = cluster.srun("-N1", *options, "true")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
