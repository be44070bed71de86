"""The --vgpu-... options are checked where the user types them."""

import pytest

from tests.cluster.running import RunningCluster
from tests.cluster.waiting import until_bound

pytestmark = pytest.mark.slurm_interface

WRONG = [
    ("--vgpu-slice=3ms", "5ms to 1000ms"),
    ("--vgpu-affinity=nvlink", "require_nvlink, prefer_nvlink, same_numa or none"),
    ("--vgpu-comm=rign", "ring, chain, tree, alltoall or tpKxdpM"),
    ("--vgpu-bind=all", "own"),
    ("--vgpu-mem=7GB", "7GiB"),
    ("--vgpu-workload=CNN!", "as cnn"),
]


@pytest.mark.parametrize("command", ["sbatch --wrap", "srun", "salloc"])
def test_a_wrong_value_is_refused_at_submit(cluster: RunningCluster, command: str) -> None:
    for option, says in WRONG:
        program, *rest = command.split()
        done = cluster.run(program, "--gres=vgpu:1", option, *rest, "true", user="alice")
        first = done.stderr.splitlines()[0]
        assert done.returncode != 0
        assert option in first, done.stderr
        assert says in first, done.stderr
    assert cluster.check("squeue", "-h") == ""


def test_a_wrong_value_in_a_script_is_refused_at_submit(cluster: RunningCluster) -> None:
    script = "#!/bin/bash\n#SBATCH --gres=vgpu:1 --vgpu-slice=1ms\ntrue\n"
    done = cluster.run("sbatch", user="alice", stdin=script)
    assert done.returncode != 0
    assert "5ms to 1000ms" in done.stderr.splitlines()[0]


def test_right_values_are_accepted_and_reach_the_node(cluster: RunningCluster) -> None:
    cluster.check("sh", "-c", "printf '0 1\\n1 0\\n' >~/matrix", user="alice")
    options = ["--vgpu-slice=20ms", "--vgpu-comm=matrix", "--vgpu-affinity=none", "--vgpu-mem=2GiB"]
    job = cluster.submit("sleep 60", "-w", "n1", "--gres=vgpu:2", *options)
    cluster.wait_for_state(job, "RUNNING")
    until_bound(cluster, "n1", job)
    assert {vgpu["slice_us"] for vgpu in cluster.vgpus("n1")} == {20000}
    cluster.check("scancel", str(job))


@pytest.mark.parametrize("command", ["srun", "sbatch"])
def test_an_option_that_was_forged_past_the_check_fails_the_step_with_a_sentence(
    cluster: RunningCluster, command: str
) -> None:
    env = {"_SLURM_SPANK_OPTION_vgpu_vgpu_slice": "1ms"}
    if command == "srun":
        done = cluster.srun("-Q", "-w", "n1", "--gres=vgpu:1", "echo", "ran", env=env)
        code, text = done.returncode, done.stderr + done.stdout
    else:
        options = ("--parsable", "--gres=vgpu:1", "-w", "n1", "-o", "/home/alice/%j.out")
        printed = cluster.check("sbatch", *options, "--wrap", "echo ran", user="alice", env=env)
        job = cluster.wait(int(printed))
        code, text = job.exit_code, job.output
    assert code == 1
    assert "error: vgpu: node n1: --vgpu-slice=1ms: 5ms to 1000ms" in text.splitlines()[0]
    assert "ran\n" not in text


def test_help_lists_every_option(cluster: RunningCluster) -> None:
    for command in ("sbatch", "srun", "salloc"):
        text = cluster.check(command, "--help")
        for option in ("colocate", "bind", "affinity", "comm", "slice", "workload", "mem"):
            assert f"--vgpu-{option}" in text
