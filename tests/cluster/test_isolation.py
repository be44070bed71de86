"""A user's own environment and rights change nothing about what a step may use."""

import pytest

from tests.cluster.running import PYTHON, RunningCluster, lines
from tests.cluster.test_steps import NO_DEVICE, OPEN_ALL, QUOTA, devices, seen
from tests.cluster.waiting import until_bound

pytestmark = pytest.mark.slurm_interface

FORGED = {
    "SLURM_JOB_VGPUS": "7",
    "SLURM_STEP_VGPUS": "0,1,2,3",
    "SLURM_TASK_VGPUS": "3",
    "_VGPU_GRES_SLOTS": "0,1,2,3",
    "_VGPU_CONF": "/dev/null",
    "SLURMD_NODENAME": "n9",
    "VGPU_QUOTA": "40G",
    "VGPU_DISABLE": "1",
    "CUDA_VISIBLE_DEVICES": "3,2,1,0",
}


def test_a_job_without_a_vgpu_has_no_gpu(cluster: RunningCluster) -> None:
    for env in ({}, FORGED):
        done = cluster.srun("sh", "-c", f"cuprobe devices; {OPEN_ALL}; env | grep VGPUS=", env=env)
        (probe,) = lines(done.stdout)
        assert (probe["result"], probe["devices"]) == (NO_DEVICE, [])
        assert "opened" not in done.stdout
        assert "VGPUS=" not in done.stdout
    job = cluster.sbatch(f"cuprobe devices; {OPEN_ALL}")
    assert lines(job.output)[0]["result"] == NO_DEVICE
    assert "opened" not in job.output


def test_forged_variables_change_neither_gpus_nor_quota(cluster: RunningCluster) -> None:
    honest = cluster.srun("-w", "n1", "--gres=vgpu:1", "cuprobe", "devices")
    forged = cluster.srun(
        "-w",
        "n1",
        "--gres=vgpu:1",
        "sh",
        "-c",
        f"printenv SLURM_STEP_VGPUS SLURM_JOB_VGPUS SLURM_TASK_VGPUS; cuprobe devices; {OPEN_ALL}",
        env=FORGED,
    )
    assert devices(forged.stdout) == devices(honest.stdout)
    assert forged.stdout.count("opened") == 1
    assert forged.stdout.splitlines()[0].isdigit()  # STEP, set anew; the other two are gone
    assert forged.stdout.splitlines()[1].startswith("{")


@pytest.mark.parametrize(
    "escape",
    [
        "env -i {probe}",
        "env -u LD_PRELOAD {probe}",
        "LD_PRELOAD= {probe}",
        "setarch -R {probe}",
        "/lib64/ld-linux-x86-64.so.2 {probe}",
        "cp {probe} /tmp/mine.$$ && /tmp/mine.$$",
    ],
    ids=lambda escape: escape.split()[0],
)
def test_no_way_of_starting_a_program_sheds_the_shim(cluster: RunningCluster, escape: str) -> None:
    probe = "$(command -v cuprobe)"
    command = escape.format(probe=probe) + " devices alloc=5G"
    done = cluster.srun("--gres=vgpu:1", "sh", "-c", command)
    found, refused = lines(done.stdout)
    assert [device["total"] for device in found["devices"]] == [QUOTA], done.stderr
    assert refused["result"] == 2


def test_a_program_cannot_reach_a_gpu_that_is_not_its_own_by_visible_devices(
    cluster: RunningCluster,
) -> None:
    each = "for i in 0 1 2 3; do CUDA_VISIBLE_DEVICES=$i cuprobe devices; done"
    command = f"{each}; env -u CUDA_VISIBLE_DEVICES cuprobe devices"
    done = cluster.srun("-w", "n1", "--gres=vgpu:1", "sh", "-c", f"cuprobe devices; {command}")
    own, *others = seen(done.stdout)
    assert set(others) <= {own, ""}
    assert others[-1] == own


MINE = """
    int puts(const char *);
    __attribute__((constructor)) static void hello(void) { puts("mine"); }
"""


def test_the_users_own_preload_works_beside_ours(cluster: RunningCluster) -> None:
    compiler = ("gcc", "-shared", "-fPIC", "-o", "mine.so", "-x", "c", "-")
    cluster.check(*compiler, user="alice", stdin=MINE)
    env = {"LD_PRELOAD": "/home/alice/mine.so"}
    done = cluster.srun("--gres=vgpu:1", "cuprobe", "devices", env=env)
    assert "mine" in done.stdout, done.stderr
    assert [device["total"] for device in devices(done.stdout)] == [QUOTA]


def test_nothing_of_a_step_is_in_the_nodes_mounts(cluster: RunningCluster) -> None:
    """Also where mounts are shared between namespaces, as systemd has it."""
    cluster.check("mount", "--make-rshared", "/", node="n1")
    before = cluster.check("cat", "/proc/self/mountinfo", node="n1")
    cluster.srun("-w", "n1", "-n2", "--gres=vgpu:2", "true")
    job = cluster.submit("sleep 30", "-w", "n1", "--gres=vgpu:1")
    until_bound(cluster, "n1", job)
    during = cluster.check("cat", "/proc/self/mountinfo", node="n1")
    cluster.check("scancel", str(job))
    cluster.check("mount", "--make-rprivate", "/", node="n1")
    assert during == before


def test_the_user_cannot_take_the_covers_off(cluster: RunningCluster) -> None:
    covers = "/dev/nvidia0 /etc/ld.so.preload /run/vgpu-step"
    inner = f"for i in {covers}; do umount $i; umount -l $i; done; mknod /tmp/n c 1 3; {OPEN_ALL}"
    tries = f"{inner}; unshare -Urm sh -c '{inner}'"
    done = cluster.srun("-w", "n1", "sh", "-c", tries)
    assert "opened" not in done.stdout, done.stdout + done.stderr


def test_containers_are_told_where_socket_and_shim_are(cluster: RunningCluster) -> None:
    shim = "/usr/lib/x86_64-linux-gnu/slurm-vgpu/libvgpu.so"
    mine = {"APPTAINER_BIND": "/data:/mnt", "SINGULARITYENV_LD_PRELOAD": "/opt/mine.so"}
    done = cluster.srun("--gres=vgpu:1", "env", env=mine)
    env = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    gpu = env["CUDA_VISIBLE_DEVICES"]
    assert env["APPTAINER_BIND"] == f"/data:/mnt,/run/vgpu-step,{shim}"
    assert env["SINGULARITY_BIND"] == f"/run/vgpu-step,{shim}"
    assert env["APPTAINERENV_LD_PRELOAD"] == shim
    assert env["SINGULARITYENV_LD_PRELOAD"] == f"{shim}:/opt/mine.so"
    assert env["APPTAINERENV_CUDA_VISIBLE_DEVICES"] == gpu
    assert env["NVIDIA_VISIBLE_DEVICES"] == gpu


PAGES = """
import ctypes, errno, os, socket, struct, sys
sys.path.insert(0, "/opt/slurm-vgpu/src")
from pysched.vgpud_client import Head, MAGIC

link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.connect("/run/vgpu-step/attach.sock")
link.send(bytes(Head(MAGIC, 1, 0, 32, 0, 24)) + struct.pack("II", 0, 0))
reply, fds, _, _ = socket.recv_fds(link, 65536, 64)
control, account = fds[:2]

def refused(what, *arguments):
    try:
        what(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"

print(refused(os.open, f"/proc/self/fd/{control}", os.O_RDWR))
print(refused(os.write, control, b"x"))
print(refused(os.ftruncate, account, 0))
print(refused(os.ftruncate, account, 1 << 30))
"""


def test_a_jobs_pages_cannot_be_rewritten_or_cut(cluster: RunningCluster) -> None:
    job = cluster.submit("sleep 60", "-w", "n1", "--gres=vgpu:1", user="bob")
    cluster.wait_for_state(job, "RUNNING")
    done = cluster.srun("-w", "n1", "--gres=vgpu:1", PYTHON, "-c", PAGES)
    assert done.stdout.split() == ["EACCES", "EBADF", "EPERM", "EPERM"], done.stderr
    assert job in {vgpu["job"] for vgpu in cluster.vgpus("n1")}
    cluster.check("scancel", str(job))
