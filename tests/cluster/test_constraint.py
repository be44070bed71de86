"""With Slurm's device cgroup (ConstrainDevices=yes) as without: silence, and the right GPUs."""

import pytest

from tests.cluster.conftest import Clusters
from tests.cluster.running import RunningCluster, lines
from tests.cluster.test_steps import NO_DEVICE, OPEN_ALL, devices, seen
from tests.cluster.waiting import agent, end

pytestmark = pytest.mark.slurm_interface

# A cgroup tells devices by number. Here each GPU has that of a device that can really be opened,
# and that nothing else needs.
NUMBERS = {0: "1 7", 1: "1 5", 2: "1 8", 3: "1 9"}  # full, zero, random, urandom


@pytest.fixture(scope="module")
def constrained(clusters: Clusters) -> RunningCluster:
    cluster = clusters("--cgroup")
    for gpu, number in NUMBERS.items():
        for node in ("n1", "n2"):
            device = f"/dev/nvidia{gpu}"
            cluster.check("sh", "-c", f"rm {device}; mknod -m 666 {device} c {number}", node=node)
    return cluster


def test_nothing_is_printed_with_and_without_vgpus(constrained: RunningCluster) -> None:
    for options in ([], ["--gres=vgpu:1"], ["--gres=vgpu:2", "-n2"]):
        done = constrained.srun("-N1", *options, "true")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    job = constrained.sbatch("srun --gres=none true; srun true", "--gres=vgpu:2")
    assert (job.exit_code, job.output) == (0, "")
    constrained.settle()


def test_a_step_can_use_the_gpus_that_it_is_bound_to(constrained: RunningCluster) -> None:
    job = constrained.sbatch(
        f"srun -n1 sh -c 'cuprobe devices; {OPEN_ALL}'", "--gres=vgpu:2", "-w", "n1"
    )
    assert len(devices(job.output)) == 2
    assert job.output.count("opened") == 2
    constrained.settle()


def test_a_slot_that_is_bound_away_from_home_can_be_used(constrained: RunningCluster) -> None:
    home = constrained.srun("-w", "n1", "--gres=vgpu:1", "cuprobe", "devices", "alloc=1G")
    with agent(constrained, "n1", '{"gpus":[3],"why":"a test"}'):
        away = constrained.srun("-w", "n1", "--gres=vgpu:1", "cuprobe", "devices", "alloc=1G")
    assert seen(home.stdout) != seen(away.stdout)
    assert [probe["result"] for probe in lines(away.stdout)] == [0, 0], away.stderr
    constrained.settle()


def test_who_has_no_slot_has_no_gpu_even_without_the_covers(constrained: RunningCluster) -> None:
    """Seen from a process in the step's cgroup that has the node's own view of /dev."""
    done = constrained.srun("-w", "n1", "sh", "-c", f"cuprobe devices; {OPEN_ALL}")
    assert lines(done.stdout)[0]["result"] == NO_DEVICE
    assert "opened" not in done.stdout
    pids = constrained.popen("srun", "-w", "n1", "sh", "-c", "echo $$; sleep 60", user="alice")
    assert pids.stdout is not None
    step = pids.stdout.readline().strip()
    group = f"$(sed -n 's/.*:devices:.*\\(.slurm_n1.*\\)/\\1/p' /proc/{step}/cgroup)"
    outside = f"echo $$ >/sys/fs/cgroup/devices{group}/tasks && echo inside"
    done = constrained.run("sh", "-c", f"{outside}; {OPEN_ALL}", node="n1")
    end(pids)
    assert done.stdout == "inside\n", done.stderr
    constrained.settle()


def test_a_step_with_gres_none_takes_nothing_from_its_jobs_other_steps(
    constrained: RunningCluster,
) -> None:
    long = "srun -n1 --overlap sh -c 'sleep 1; cuprobe devices alloc=1G'"
    none = "srun -n1 --overlap --gres=none cuprobe devices"
    job = constrained.sbatch(f"{long} & sleep 0.3; {none}; wait", "--gres=vgpu:1")
    results = sorted(probe["result"] for probe in lines(job.output))
    assert results == [0, 0, NO_DEVICE], job.output
    constrained.settle()
