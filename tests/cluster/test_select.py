"""Claims about the way of a request through slurmctld, the bridge and vgpu-select."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from pysched import segment
from tests.cluster.conftest import Clusters
from tests.cluster.running import PYTHON, RunningCluster
from tests.cluster.waiting import until

SOURCE = "/opt/slurm-vgpu/src"
BAD_SELECT = f"{SOURCE}/tests/cluster/bad_select.py"
JOB_SUBMIT = "/etc/slurm/job_submit.lua"
PAUSE = "nobody is asked for 10 s"
READ = (
    "import json; from pysched.slurm import readers; name, reader = readers.choose(); "
    "nodes = {node.name: node for node in reader()}; n1 = nodes['n1']; "
    "print(json.dumps([name, sorted(nodes), n1.slots, n1.used, sorted(n1.used_slots), n1.usable, "
    "sorted(n1.features), bool(n1.report), n1.partitions]))"
)


@pytest.fixture
def cluster(clusters: Clusters) -> Iterator[RunningCluster]:
    """Two nodes with four A100 each in bridged pairs."""
    cluster = clusters("--services")
    until(lambda: "the most is 2 (" in refusal(cluster, 3), "vgpu-select knows the nodes' links")
    yield cluster
    cluster.settle()


def refusal(cluster: RunningCluster, count: int) -> str:
    """What the user is told about so many linked vGPUs."""
    wish = ("--vgpu-affinity=require_nvlink", "--hold", "--wrap=true")
    return cluster.run("sbatch", f"--gres=vgpu:{count}", *wish, user="alice").stderr


def requested(fields: Mapping[str, str]) -> str:
    """The job's GRES, written alike by all releases."""
    return fields["TresPerNode"].strip().replace("gres/", "gres:")


# --- what comes of a request ----------------------------------------------------------------------


@pytest.mark.parametrize("command", ["sbatch", "srun", "salloc"])
def test_that_an_impossible_request_is_refused_on_the_terminal(
    cluster: RunningCluster, command: str
) -> None:
    what = ["--wrap=true"] if command == "sbatch" else ["true"]
    done = cluster.run(command, "--gres=vgpu:5", *what, user="alice")
    assert done.returncode != 0
    assert done.stderr.splitlines()[0] == (
        f"{command}: error: vgpu: no node can ever give 5 vGPUs on different GPUs; the most is 4 "
        "(n[1-2])"
    )


def test_that_memory_becomes_a_type(cluster: RunningCluster) -> None:
    job = cluster.submit("true", "--hold", "--gres=vgpu:2", "--vgpu-mem=3GiB")
    fields = cluster.job(job)
    assert requested(fields) == "gres:vgpu:v4g:2"
    assert segment.get_field(fields["AdminComment"], "type") == "v4g"
    done = cluster.run("sbatch", "--gres=vgpu:1", "--vgpu-mem=5GiB", "--wrap=true", user="alice")
    assert "vgpu: no vGPU has --vgpu-mem=5GiB; the largest is v4g with 4GiB" in done.stderr


def test_that_an_option_in_a_wrong_unit_is_refused(cluster: RunningCluster) -> None:
    done = cluster.run("sbatch", "--gres=vgpu:1", "--vgpu-mem=4GB", "--wrap=true", user="alice")
    assert done.returncode != 0 and "4GiB" in done.stderr


def test_that_a_change_to_an_impossible_request_is_refused(cluster: RunningCluster) -> None:
    job = cluster.submit("true", "--hold", "--gres=vgpu:2")
    done = cluster.run("scontrol", "update", f"JobId={job}", "Gres=vgpu:9", user="alice")
    assert done.returncode != 0
    assert requested(cluster.job(job)) == "gres:vgpu:2"


def test_that_jobs_without_vgpus_never_leave_slurmctld(cluster: RunningCluster) -> None:
    with bad_select(cluster, "nothing"):
        assert cluster.sbatch("true").state == "COMPLETED"
        assert PAUSE not in new_log(cluster)


@pytest.mark.slurm_interface
def test_that_the_reader_of_this_release_sees_slots_use_and_reports(
    cluster: RunningCluster,
) -> None:
    job = cluster.submit("sleep 600", "-w", "n1", "--gres=vgpu:2")
    cluster.wait_for_state(job, "RUNNING")
    name, nodes, *rest = json.loads(
        cluster.check("env", f"PYTHONPATH={SOURCE}", PYTHON, "-c", READ)
    )
    release = cluster.check("scontrol", "--version").split()[-1]
    assert name == ("json" if release >= "24.11" else "text")
    assert nodes == ["n1", "n2"]
    assert rest == [{"v4g": 40}, {"v4g": 2}, [0, 1], True, ["vgpu-nvlink2"], True, ["main"]]


# --- when vgpu-select fails -----------------------------------------------------------------------


@contextmanager
def bad_select(cluster: RunningCluster, how: str) -> Iterator[None]:
    """Put another service in the place of vgpu-select; the bridge forgets earlier failures."""
    cluster.ctl("controller", "stop", "select")
    reload_bridge(cluster)
    process = cluster.popen(PYTHON, BAD_SELECT, how)
    assert process.stdout is not None and process.stdout.readline() == "listening\n"
    mark_log(cluster)
    try:
        yield
    finally:
        pid = cluster.check("pgrep", "-f", f"^{PYTHON} {BAD_SELECT}").strip()
        cluster.check("kill", pid)
        process.communicate()
        cluster.ctl("controller", "start", "select")
        reload_bridge(cluster)


def reload_bridge(cluster: RunningCluster, on_failure: str = "accept") -> None:
    """A script with a later time, in seconds, is read again at the next job, with new state."""
    path = cluster.path(JOB_SUBMIT)
    later = max(int(path.stat().st_mtime) + 1, int(time.time()))
    lines = [line for line in path.read_text().splitlines() if not line.startswith("vgpu.")]
    lines.insert(1, f'vgpu.on_failure = "{on_failure}"')
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (later, later))


def mark_log(cluster: RunningCluster) -> None:
    marks[cluster] = len(cluster.log("controller", "slurmctld"))


def new_log(cluster: RunningCluster) -> str:
    return cluster.log("controller", "slurmctld")[marks[cluster] :]


marks: dict[RunningCluster, int] = {}
WAYS = ("nothing", "garbage", "half", "megabytes")


@pytest.mark.parametrize("how", WAYS)
def test_that_jobs_pass_and_it_is_asked_once_when_it_answers(
    cluster: RunningCluster, how: str
) -> None:
    with bad_select(cluster, how):
        jobs = [cluster.submit("true", "--gres=vgpu:2") for _ in range(5)]
        assert cluster.check("squeue", "-h") is not None
        assert new_log(cluster).count(PAUSE) == 1
        for job in jobs:
            assert cluster.wait(job).state == "COMPLETED"


def test_that_jobs_are_rejected_where_the_site_wants_that(cluster: RunningCluster) -> None:
    with bad_select(cluster, "garbage"):
        reload_bridge(cluster, on_failure="reject")
        for _ in range(3):
            done = cluster.run("sbatch", "--gres=vgpu:2", "--wrap=true", user="alice")
            assert done.returncode != 0
            assert "vgpu: the vGPU service does not answer" in done.stderr


def test_that_a_hanging_service_costs_one_deadline(cluster: RunningCluster) -> None:
    pid = cluster.check("cat", "/run/minicluster/controller/select.pid").strip()
    reload_bridge(cluster)
    mark_log(cluster)
    cluster.check("kill", "-STOP", pid)
    try:
        jobs = [cluster.submit("true", "--gres=vgpu:2") for _ in range(3)]
    finally:
        cluster.check("kill", "-CONT", pid)
    assert new_log(cluster).count(PAUSE) == 1
    assert all(cluster.wait(job).state == "COMPLETED" for job in jobs)
    reload_bridge(cluster)


def test_that_a_killed_service_costs_nothing(cluster: RunningCluster) -> None:
    cluster.ctl("controller", "kill", "select")
    try:
        mark_log(cluster)
        assert cluster.sbatch("true", "--gres=vgpu:2").state == "COMPLETED"
        assert PAUSE not in new_log(cluster)
    finally:
        cluster.ctl("controller", "start", "select")
