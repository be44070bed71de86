"""Random plans: real slurmctld and slurmd take whatever is generated, without an error about it."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from gres import layout, planfile, render, slurmconf
from tests.cluster.running import RunningCluster
from tests.unit.random_plans import plans

pytestmark = pytest.mark.slurm_interface

ETC = "/etc/slurm"
# What slurmd and slurmctld say of a configuration that is not as they want it.
COMPLAINT = re.compile(
    r"(error|fatal|warning): .*(gres|vgpu|shard|Cores|Links|PluginDir|NodeName|Feature)",
    re.IGNORECASE,
)
# Of the sandbox: its device files are plain ones, its machine has fewer CPUs than its nodes claim.
HARMLESS = re.compile(r"not a valid character or block device|is not a device|mpi|differ")


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    """One node, n1, with eight GPUs and the device files of all their MIG instances."""
    cluster = RunningCluster("--plan", "none", "--nodes", "1", "--machine", "dgx-a100")
    base = re.sub(
        r"(?m)^NodeName=.*\n",
        "include slurm-vgpu.conf\n",
        cluster.path(f"{ETC}/slurm.conf").read_text(),
    )
    cluster.path(f"{ETC}/slurm.conf").write_text(base)
    cluster.check(
        "bash",
        "-c",
        "mkdir /dev/nvidia-caps; cd /dev/nvidia-caps; touch nvidia-cap{1..1100}",
        node="n1",
    )
    yield cluster
    cluster.close()


def install(cluster: RunningCluster, text: str) -> dict[str, int]:
    """Generate for the release that runs, start Slurm anew; return the counts that are expected."""
    version = cluster.check("slurmd", "-V").split()[1]
    release = ".".join(version.split(".")[:2])
    built = layout.build(planfile.parse(text.encode()))
    files = render.render(built, release)
    port = cluster.path("/run/minicluster/n1/port").read_text().strip()
    own = rf"\1 NodeHostname=slurm-vgpu Port={port}"
    files["slurm-vgpu.conf"] = re.sub(r"(?m)^(NodeName=.*)", own, files["slurm-vgpu.conf"])
    for name, content in files.items():
        path = cluster.path(f"{ETC}/{name}")
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    daemons = (("n1", "slurmd"), ("controller", "slurmctld"))
    for host, daemon in daemons:
        cluster.run("minicluster", "ctl", host, "stop", daemon)
        cluster.path(f"/run/minicluster/{host}/{daemon}.log").write_text("")
    cluster.check("sh", "-c", "rm -f /var/spool/slurmctld/*_state* /var/spool/slurmctld/last*")
    for host, daemon in reversed(daemons):
        cluster.ctl(host, "start", daemon)
    return built.groups[0].layout.gres()


def is_taken(cluster: RunningCluster, text: str) -> None:
    expected = install(cluster, text)
    said = (cluster.log("controller", "slurmctld") + cluster.log("n1", "slurmd")).splitlines()
    complaints = [line for line in said if COMPLAINT.search(line) and not HARMLESS.search(line)]
    assert complaints == []
    shown = cluster.check("sinfo", "-h", "-o", "%T %G").split()
    assert shown[0] == "idle"
    assert slurmconf.parse_gres(shown[1]) == expected


# To make a failing plan smaller would take minutes.
_SETTINGS: dict[str, Any] = {
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.generate],
}


@settings(max_examples=5, **_SETTINGS)
@given(text=plans(most_sets=1))
def test_that_slurm_takes_some_random_plans(cluster: RunningCluster, text: str) -> None:
    is_taken(cluster, text)


@pytest.mark.soak
@settings(max_examples=100, **{**_SETTINGS, "derandomize": False})
@given(text=plans(most_sets=1))
def test_that_slurm_takes_many_random_plans(cluster: RunningCluster, text: str) -> None:
    is_taken(cluster, text)
