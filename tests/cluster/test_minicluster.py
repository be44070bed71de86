"""The cluster that the other tests use."""

import subprocess
import sys
from pathlib import Path

from tests.cluster.running import MINICLUSTER, ROOT, RunningCluster


def test_a_job_runs_on_both_nodes_as_its_user(cluster: RunningCluster) -> None:
    job = cluster.sbatch(
        "srun sh -c 'echo \"$SLURMD_NODENAME $(id -un)\"'", "--nodes=2", user="bob"
    )
    assert (job.state, job.exit_code) == ("COMPLETED", 0)
    assert sorted(job.output.splitlines()) == ["n1 bob", "n2 bob"]


def test_each_node_has_devices_and_simulated_gpus_of_its_own(cluster: RunningCluster) -> None:
    cluster.check("touch", "/dev/only-here", "/run/gpusim/only-here", node="n1")
    assert cluster.run("ls", "/dev/only-here", node="n1").returncode == 0
    assert cluster.run("ls", "/dev/only-here", node="n2").returncode != 0
    assert cluster.run("ls", "/run/gpusim/only-here", node="n2").returncode != 0
    cluster.check("rm", "/dev/only-here", "/run/gpusim/only-here", node="n1")


def test_daemons_can_be_killed_and_started_again(cluster: RunningCluster) -> None:
    cluster.ctl("n1", "kill", "slurmd")
    cluster.ctl("n1", "start", "slurmd")
    cluster.ctl("n1", "restart", "slurmd")
    cluster.ctl("controller", "kill", "slurmctld")
    cluster.ctl("controller", "start", "slurmctld")
    assert cluster.srun("--nodelist=n1", "hostname").stdout == "slurm-vgpu\n"


def test_a_failed_job_is_told_with_its_exit_code_and_output(cluster: RunningCluster) -> None:
    job = cluster.sbatch("echo before; exit 7")
    assert (job.state, job.exit_code, job.output) == ("FAILED", 7, "before\n")


def test_an_interactive_allocation_runs_its_shell_on_the_node(cluster: RunningCluster) -> None:
    done = cluster.run("salloc", "--nodelist=n2", user="alice", stdin="printenv SLURMD_NODENAME")
    assert done.stdout == "n2\n", done.stderr


def test_a_cluster_takes_files_that_were_generated_elsewhere(tmp_path: Path) -> None:
    vgpu = [Path(sys.executable).with_name("vgpu"), "config", "generate"]
    plan = ROOT / "tests" / "demo" / "plan.yaml"
    subprocess.run([*vgpu, plan, "-o", tmp_path, "--slurm", "22.05"], check=True)
    command = [MINICLUSTER, "run", "--conf", tmp_path, "--", "sinfo", "-h", "-o", "%G"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "vgpu:a100-4g:32(S:0-1)\n"), done.stderr


def test_a_daemon_that_does_not_start_is_told_with_the_end_of_its_log() -> None:
    command = [MINICLUSTER, "run", "--nodes=1", "--plan=none", "--set", "NoSuchKey=1", "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("minicluster: slurmctld of controller ended at once; the end of ")
    assert "unrecognized key: NoSuchKey" in done.stderr
