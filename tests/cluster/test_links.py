"""vgpu config check --links: which GPUs the running Slurm really hands out together."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.running import RunningCluster

PLAN = Path(__file__).parent / "plans" / "mesh.plan.yaml"


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A DGX-1V whose GPUs 4 to 7 are whole ones."""
    plan = tmp_path_factory.mktemp("mesh") / "plan.yaml"
    plan.write_text(PLAN.read_text().replace("dgx[01-16]", "dgx1"))
    cluster = RunningCluster("--plan", str(plan), "--machine", "dgx-1v")
    yield cluster
    cluster.close()


def try_links(cluster: RunningCluster) -> tuple[list[dict[str, Any]], str]:
    done = cluster.run(
        "vgpu", "config", "check", "/etc/slurm/plan.yaml", "--links", "--json", "--node", "dgx1"
    )
    return json.loads(done.stdout), done.stderr


@pytest.mark.slurm_interface
def test_that_generated_links_give_a_job_well_linked_gpus(mesh: RunningCluster) -> None:
    assert try_links(mesh)[0] == []
    assert mesh.check("squeue", "-h") == ""


def test_that_a_busy_node_is_not_tried(mesh: RunningCluster) -> None:
    job = mesh.submit("sleep 60")
    mesh.wait_for_state(job, "RUNNING")
    findings, said = try_links(mesh)
    mesh.settle()
    assert findings == []
    assert said.startswith("dgx1: no node is idle")


def test_that_links_for_another_release_are_found_and_proved(mesh: RunningCluster) -> None:
    release = mesh.check("slurmd", "-V").split()[1]
    other = "23.11" if release > "24.05" else "24.11"
    mesh.check(
        "vgpu", "config", "generate", "/etc/slurm/plan.yaml", "-o", "/tmp/x", "--slurm", other
    )
    mesh.check("cp", "/tmp/x/gres.conf", "/etc/slurm/gres.conf")
    mesh.ctl("dgx1", "stop", "slurmd")
    mesh.ctl("controller", "restart", "slurmctld")
    mesh.ctl("dgx1", "start", "slurmd")
    findings = try_links(mesh)[0]
    assert [finding["code"] for finding in findings] == ["gres-links", "links-order"]
    assert findings[1]["what"].startswith("gives GPUs 4 and 5 with 1 links to a job of two")
