"""What a user reads when a step cannot get its vGPUs; the node stays in use, and other jobs run."""

from collections.abc import Iterator

import pytest

from tests.cluster.conftest import Clusters
from tests.cluster.running import RunningCluster

pytestmark = pytest.mark.slurm_interface

PLUGINS = "/usr/lib/x86_64-linux-gnu/slurm-vgpu"
SOURCE = "/opt/slurm-vgpu/src"
TIMEOUT = 10.0  # within which a step that cannot run has failed


def check_sentence(text: str, *parts: str) -> None:
    """The first line of an error is one sentence of ours that names the node and what to do."""
    first = text.splitlines()[0]
    assert "error: vgpu: node n2" in first, text
    for part in parts:
        assert part in first, text


def check_fails(cluster: RunningCluster, *parts: str) -> None:
    """A step and a batch script that want vGPUs of n2 both fail, and say why."""
    step = cluster.popen(
        "srun", "-Q", "-w", "n2", "-n3", "--gres=vgpu:2", "echo", "ran", user="alice"
    )
    job = cluster.sbatch("echo ran", "-w", "n2", "--gres=vgpu:1", timeout=TIMEOUT)
    out, err = step.communicate(timeout=TIMEOUT)
    assert step.returncode != 0
    assert "ran" not in out
    check_sentence(err, *parts)
    assert (job.state, job.exit_code) == ("FAILED", 1)
    assert "ran" not in job.output
    check_sentence(job.output, *parts)


def check_plain_jobs_run(cluster: RunningCluster) -> None:
    done = cluster.srun(
        "-w", "n2", "-n2", "sh", "-c", "(: <>/dev/nvidia0) 2>/dev/null || echo covered"
    )
    assert (done.returncode, done.stdout) == (0, "covered\ncovered\n"), done.stderr


def test_without_vgpud_a_step_fails_with_one_sentence(cluster: RunningCluster) -> None:
    cluster.ctl("n2", "stop", "vgpud")
    try:
        check_fails(cluster, "vgpud does not answer", "systemctl start vgpud")
        check_plain_jobs_run(cluster)
    finally:
        cluster.ctl("n2", "start", "vgpud")
    assert cluster.srun("-w", "n2", "--gres=vgpu:1", "true").returncode == 0


def test_a_step_waits_for_a_vgpud_that_is_just_starting(cluster: RunningCluster) -> None:
    cluster.ctl("n2", "kill", "vgpud")
    step = cluster.popen("srun", "-w", "n2", "--gres=vgpu:1", "echo", "ran", user="alice")
    cluster.ctl("n2", "start", "vgpud")
    assert step.communicate(timeout=TIMEOUT) == ("ran\n", "")


SAVE = f"cp -a {PLUGINS} /tmp/plugins; cp -a /etc/slurm /tmp/slurm"
# Files that daemons have mapped are replaced, not overwritten.
RESTORE = f"""
    cp -a --remove-destination /tmp/plugins/. {PLUGINS}
    cp -a --remove-destination /tmp/slurm/. /etc/slurm
    rm -r /tmp/plugins /tmp/slurm
"""


@pytest.fixture
def broken(clusters: Clusters) -> Iterator[RunningCluster]:
    """A cluster of its own to break; whole again afterwards."""
    cluster = clusters("--set", "KillWait=3")
    cluster.check("sh", "-ec", SAVE)
    yield cluster
    cluster.check("sh", "-ec", RESTORE)
    cluster.ctl("n2", "restart", "slurmd")
    cluster.settle()


def test_without_the_gres_plugin_a_step_fails_with_one_sentence(broken: RunningCluster) -> None:
    broken.check("rm", f"{PLUGINS}/gres_vgpu.so")
    broken.ctl("n2", "restart", "slurmd")
    release = broken.check("sinfo", "--version").split()[1]
    check_fails(broken, f"gres_vgpu.so for Slurm {release}", "restart slurmd")
    check_plain_jobs_run(broken)


def test_a_gres_plugin_for_another_release_is_as_good_as_none(broken: RunningCluster) -> None:
    build = f"""
        cd {SOURCE}
        other=/tmp/gres_vgpu.c
        sed 's/= SLURM_VERSION_NUMBER/= SLURM_VERSION_NUMBER + 1/' slurm_plugins/gres_vgpu.c >$other
        gcc -std=gnu11 -shared -fPIC -w -Ispank -Islurm_plugins -DVGPU_PKGLIBDIR='""' \\
            -DVGPU_DATADIR='""' -DVGPU_SYSCONFDIR='"/etc"' -o {PLUGINS}/gres_vgpu.so \\
            $other slurm_plugins/node.c spank/proto/*.c
    """
    broken.check("sh", "-ec", build)
    broken.ctl("n2", "restart", "slurmd")
    release = broken.check("sinfo", "--version").split()[1]
    check_fails(broken, f"gres_vgpu.so for Slurm {release}", "restart slurmd")
    check_plain_jobs_run(broken)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("echo Colour=red >>/etc/slurm/vgpu.conf", "/etc/slurm/vgpu.conf:"),
        ("rm /etc/slurm/vgpu.conf", "vgpu config generate"),
        (f"rm {PLUGINS}/libvgpu.so", f"{PLUGINS}/libvgpu.so"),
    ],
    ids=["damaged configuration", "no configuration", "no shim"],
)
def test_a_broken_installation_is_told(broken: RunningCluster, damage: str, says: str) -> None:
    broken.check("sh", "-c", damage)
    check_fails(broken, says)


def test_without_a_readable_configuration_no_job_may_touch_the_gpus(broken: RunningCluster) -> None:
    broken.check("sh", "-c", "echo Colour=red >>/etc/slurm/vgpu.conf")
    done = broken.srun("-Q", "-w", "n2", "echo", "ran")
    assert done.returncode != 0
    check_sentence(done.stderr, "/etc/slurm/vgpu.conf:", "Colour")


def test_without_the_cover_no_job_may_touch_the_gpus(broken: RunningCluster) -> None:
    broken.check("mv", "/usr/share/slurm-vgpu/covered", "/tmp/covered")
    done = broken.srun("-Q", "-w", "n2", "echo", "ran")
    broken.check("mv", "/tmp/covered", "/usr/share/slurm-vgpu/covered")
    assert done.returncode != 0
    check_sentence(done.stderr, "/usr/share/slurm-vgpu/covered")


def test_a_wrong_line_in_plugstack_is_told_at_submit_and_on_the_node(
    broken: RunningCluster,
) -> None:
    right = broken.check("cat", "/etc/slurm/plugstack.conf.d/vgpu.conf")
    waiting = broken.submit("true", "-w", "n2", "--gres=vgpu:1", "--begin=now+2")
    wrong = right.replace("runtime_dir=", "runtimedir=")
    broken.run("tee", "/etc/slurm/plugstack.conf.d/vgpu.conf", stdin=wrong)
    submit = broken.run("sbatch", "--wrap", "true", user="alice")
    assert "plugstack.conf: runtimedir=" in submit.stderr.splitlines()[0]
    job = broken.wait(waiting)
    assert job.state == "FAILED"
    check_sentence(job.output, "plugstack.conf: runtimedir=")
