"""Every way past the preload ends at the backstop: the step is ended, its output says why, and
nobody else is harmed."""

from collections.abc import Iterator

import pytest

from tests.cluster.conftest import Clusters
from tests.cluster.running import PROGRAMS, RunningCluster, lines
from tests.cluster.waiting import until, until_bound

GIB = 1 << 30
LONG_MS = 60_000  # longer than the backstop takes by far; then the test fails
ON_N1 = ("-w", "n1", "--gres=vgpu:1")
PAST_QUOTA = "past the quota of 4096 MiB of its vGPU"
NO_VGPU = "where its job has no vGPU"

STATIC = f"{PROGRAMS}/bare {{bytes}} {{ms}} /dev/nvidia[0-9]*"
COPY = f"cp /usr/lib/*/libcuda.so.1 /tmp/mine.$$; {PROGRAMS}/walk /tmp/mine.$$ {{bytes}} {{ms}}"
WAYS = {"a static program": STATIC, "a copied driver library": COPY}


@pytest.fixture
def bystander(cluster: RunningCluster) -> Iterator[int]:
    """Another user's job that uses a vGPU of each of the node's GPUs, and is unharmed."""
    job = cluster.submit(
        "for i in 0 1 2 3; do cuprobe use=$i alloc=1G sleep=600000 & done; wait",
        "-w", "n1", "--gres=vgpu:4", user="bob",
    )  # fmt: skip
    until(
        lambda: [vgpu["charged"] > GIB for vgpu in cluster.vgpus("n1")] == [True] * 4,
        "the other job holds its memory",
    )
    yield job
    assert cluster.job(job)["JobState"] == "RUNNING"
    charged = [vgpu["charged"] for vgpu in cluster.vgpus("n1") if vgpu["job"] == job]
    assert charged == [GIB + (256 << 20)] * 4
    processes = [p for gpu in cluster.stat("n1")["gpus"] for p in gpu["processes"]]
    assert sorted(p["name"].rpartition("/")[2] for p in processes) == ["cuprobe"] * 4
    cluster.check("scancel", str(job))


@pytest.mark.parametrize("way", WAYS)
def test_memory_past_the_quota_ends_the_step(
    cluster: RunningCluster, bystander: int, way: str
) -> None:
    job = cluster.sbatch(WAYS[way].format(bytes=6 * GIB, ms=LONG_MS), *ON_N1)
    assert job.state == "FAILED", job.output
    assert PAST_QUOTA in job.output, job.output


@pytest.mark.parametrize("way", WAYS)
def test_memory_within_the_quota_is_left_alone(cluster: RunningCluster, way: str) -> None:
    """So it is the memory that ends the others, not the way."""
    job = cluster.sbatch(WAYS[way].format(bytes=3 * GIB, ms=2500), *ON_N1)
    assert job.state == "COMPLETED", job.output
    assert "result 0" in job.output or "holds GPU" in job.output


def test_the_shim_does_not_see_a_copied_library_that_is_walked(cluster: RunningCluster) -> None:
    """Else the tests above would show nothing about the backstop."""
    done = cluster.srun(*ON_N1, "bash", "-c", COPY.format(bytes=GIB, ms=0))
    assert done.stdout == f"total {40 * GIB}, result 0\n", done.stderr


def test_a_gpu_opened_through_another_process_root_ends_the_step(
    cluster: RunningCluster, bystander: int
) -> None:
    owner = cluster.submit("echo $$; sleep 600", *ON_N1)
    (vgpu,) = until_bound(cluster, "n1", owner)
    output = cluster.path(cluster.job(owner)["StdOut"])
    pid = until(lambda: output.exists() and output.read_text().strip(), "the owner says its pid")
    device = f"/proc/{pid}/root/dev/nvidia{vgpu['gpu']}"
    hidden = f"{PROGRAMS}/bare {GIB} {LONG_MS} /dev/nvidia[0-9]*; echo rc $?"
    thief = cluster.sbatch(f"{hidden}; {PROGRAMS}/bare {GIB} {LONG_MS} {device}", "-w", "n1")
    assert "rc 1\n" in thief.output  # by its own names it has none
    assert thief.state == "FAILED", thief.output
    assert NO_VGPU in thief.output, thief.output
    assert cluster.job(owner)["JobState"] == "RUNNING"


def test_the_reason_is_not_lost_on_its_way_to_srun(cluster: RunningCluster) -> None:
    """Ten steps at a time, of a shell and two children each, which are killed in any order."""
    command = STATIC.format(bytes=6 * GIB, ms=LONG_MS) + " | cat; exit 8"
    for _ in range(3):
        steps = [
            cluster.popen("srun", *ON_N1, "sh", "-c", command, user="alice") for _ in range(10)
        ]
        for step in steps:
            _, err = step.communicate(timeout=60)
            assert PAST_QUOTA in err, err


# --- a login that pam_slurm_adopt has put into the job ------------------------------------------

PAM = """\
auth sufficient pam_rootok.so
account required pam_slurm_adopt.so service=su nodename=n1 action_no_jobs=deny
session required pam_permit.so
"""


CONTAIN = ("--set", "PrologFlags=contain")


@pytest.fixture(params=[(), ("--set", "TaskPlugin=task/none")], ids=["constrained", "tracked"])
def adopting(clusters: Clusters, request: pytest.FixtureRequest) -> RunningCluster:
    """The real module, in the PAM stack of su as a site has it in that of sshd."""
    cluster = clusters("--cgroup", *CONTAIN, *request.param)
    cluster.path("/etc/pam.d/su").write_text(PAM)
    return cluster


def login(cluster: RunningCluster, command: str) -> str:
    done = cluster.run("su", "alice", "-c", command, node="n1")
    return done.stdout + done.stderr


def test_an_adopted_login_is_known_by_its_control_group(adopting: RunningCluster) -> None:
    assert "no active jobs" in login(adopting, "id")
    other = adopting.submit("cuprobe alloc=1G sleep=600000", *ON_N1, user="bob")
    job = adopting.submit("sleep 600", *ON_N1)
    (vgpu,) = until_bound(adopting, "n1", job)
    device = f"/dev/nvidia{vgpu['gpu']}"
    assert f"/job_{job}/step_extern" in login(adopting, "cat /proc/self/cgroup")

    within = login(adopting, f"bare {3 * GIB} 2500 {device}; echo rc $?")
    assert "rc 0\n" in within, within
    above = login(adopting, f"bare {6 * GIB} {LONG_MS} {device}; echo rc $?")
    assert "rc 137\n" in above, above
    assert f"job {job}: its processes held 6144 MiB" in adopting.log("n1", "vgpud")
    elsewhere = f"/dev/nvidia{(vgpu['gpu'] + 2) % 4}"
    intruder = login(adopting, f"bare {GIB} {LONG_MS} {elsewhere}; echo rc $?")
    assert "rc 137\n" in intruder, intruder
    assert NO_VGPU in adopting.log("n1", "vgpud")

    assert [adopting.job(one)["JobState"] for one in (job, other)] == ["RUNNING"] * 2
    adopting.settle()


# --- what is not past it ------------------------------------------------------------------------


def test_a_setuid_program_stays_under_the_shim(cluster: RunningCluster) -> None:
    cluster.check("sh", "-c", f"install -m 4755 {PROGRAMS}/cuprobe /usr/local/bin/cuprobe-suid")
    done = cluster.srun(*ON_N1, "env", "-i", "/usr/local/bin/cuprobe-suid", "devices", "alloc=5G")
    found, refused = lines(done.stdout)
    assert [device["total"] for device in found["devices"]] == [4 * GIB], done.stderr
    assert refused["result"] == 2


def test_a_shell_that_overlaps_a_job_stays_under_the_shim(cluster: RunningCluster) -> None:
    job = cluster.submit("sleep 600", *ON_N1)
    until_bound(cluster, "n1", job)
    probe = "tty; env -i $(command -v cuprobe) devices alloc=5G"
    shell = f"srun --jobid={job} --overlap --pty bash -c '{probe}'"
    done = cluster.run("script", "-qec", shell, "/dev/null", user="alice")
    assert "/dev/pts/" in done.stdout
    found, refused = lines(done.stdout)
    assert [device["total"] for device in found["devices"]] == [4 * GIB], done.stdout
    assert refused["result"] == 2
