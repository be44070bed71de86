"""Ten plans, from one card to ten thousand nodes: real Slurm takes what is generated, and jobs run.

One node of each node set is started, under its first name.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from gres import slurmconf
from pysched import hosts, sizes
from tests.cluster.running import RunningCluster, lines
from tests.sandbox.gpus import MACHINES

pytestmark = pytest.mark.slurm_interface

PLANS = Path(__file__).parent / "plans"
CAPS = "/dev/nvidia-caps/nvidia-cap"
MIG = ("h100-4", "gpu=2 mig=on\n")


@dataclass(frozen=True)
class Case:
    """A plan and, for each of its node sets, the machine that its nodes are."""

    name: str
    machines: list[str | tuple[str, str]]  # of tests/gpusim/machines, or one and lines to add
    instances: dict[int, list[int]] = field(default_factory=dict)  # GPU -> MIG instances

    @property
    def plan(self) -> dict[str, Any]:
        return dict(yaml.safe_load((PLANS / f"{self.name}.plan.yaml").read_text()))


CASES = [
    Case("one-card", ["single-16g"]),
    Case("reference", ["a100-pcie-4"]),
    Case("mesh", ["dgx-1v"]),
    Case("nvswitch", ["dgx-a100"]),
    Case("shards", ["pcie-8"]),
    Case("mig", [MIG], {2: [7, 8, 1]}),
    Case("whole", ["a100-pcie-4"]),
    Case("caps", ["dual-nv2"]),
    Case("mixed-10000", ["a100-pcie-4", ("h100-4", "gpu=3 mig=on\n"), "pcie-8", "single-16g"],
         {3: [7, 8, 9, 11, 12, 13, 14]}),
    Case("full-node", ["pcie-8"]),
]  # fmt: skip


@dataclass(frozen=True)
class Running:
    case: Case
    cluster: RunningCluster
    nodes: list[str]  # one of each node set

    def node_sets(self) -> list[tuple[str, dict[str, Any]]]:
        return list(zip(self.nodes, self.case.plan["nodes"], strict=True))

    def expected(self, node_set: dict[str, Any]) -> dict[str, int]:
        """GRES -> count of a node, counted from the text of the plan."""
        card = self.case.plan.get("defaults", {}).get("card")
        counts: dict[str, int] = {}
        for entry in node_set["gpus"]:
            kind = entry.get("card", card)
            each = {f"vgpu:{name}": count for name, count in entry.get("vgpus", {}).items()}
            each |= {f"gpu:{name}": len(ids) for name, ids in entry.get("mig", {}).items()}
            if "whole" in entry or "shards" in entry:
                each[f"gpu:{kind}"] = 1
            if "shards" in entry:
                each["shard"] = entry["shards"]
            for name, count in each.items():
                counts[name] = counts.get(name, 0) + count * width(str(entry["gpu"]))
        return counts


def width(text: str) -> int:
    first, _, last = text.partition("-")
    return int(last or first) - int(first) + 1


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    case: Case = request.param
    folder = tmp_path_factory.mktemp(case.name)
    plan = case.plan
    nodes = []
    for node_set in plan["nodes"]:
        names = node_set["names"]
        node_set["names"] = hosts.expand(names if isinstance(names, str) else names[0])[0]
        nodes.append(node_set["names"])
    (folder / "plan.yaml").write_text(yaml.safe_dump(plan))
    options = ["--plan", str(folder / "plan.yaml")]
    for node, machine in zip(nodes, case.machines, strict=True):
        options += ["--machine", f"{node}={machine_file(folder, machine)}"]
    for minor, instances in case.instances.items():
        for instance in instances:
            first = 3 + 135 * minor + 9 * instance
            options += [f"--device={CAPS}{first}", f"--device={CAPS}{first + 1}"]
    cluster = RunningCluster(*options)
    yield Running(case, cluster, nodes)
    cluster.close()


def machine_file(folder: Path, machine: str | tuple[str, str]) -> str:
    if isinstance(machine, str):
        return machine
    name, more = machine
    file = folder / f"{name}.machine"
    file.write_text((MACHINES / f"{name}.machine").read_text() + more)
    return str(file)


def scontrol_node(running: Running, node: str) -> dict[str, str]:
    printed = running.cluster.check("scontrol", "--oneliner", "show", "node", node)
    return dict(re.findall(r"(\w+)=(\S*)", printed))


def test_that_slurm_shows_the_types_and_counts_of_the_plan(running: Running) -> None:
    for node, node_set in running.node_sets():
        shown = scontrol_node(running, node)
        assert slurmconf.parse_gres(shown["Gres"]) == running.expected(node_set)
        assert shown["State"] == "IDLE", shown
        wanted = {
            *node_set.get("features", running.case.plan.get("defaults", {}).get("features", []))
        }
        assert wanted <= set(shown["AvailableFeatures"].split(","))


def test_that_check_finds_nothing(running: Running) -> None:
    node = running.nodes[0]
    done = running.cluster.run(
        "vgpu", "config", "check", "/etc/slurm/plan.yaml", node=node, env={"SLURMD_NODENAME": node}
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_that_a_job_of_each_type_has_its_quota(running: Running) -> None:
    for node, node_set in running.node_sets():
        quotas = {
            name: sizes.parse_size(running.case.plan["types"][name]["memory"])
            for entry in node_set["gpus"]
            for name in entry.get("vgpus", {})
        }
        for name, quota in quotas.items():
            done = running.cluster.srun(
                f"--nodelist={node}", f"--gres=vgpu:{name}:1", "cuprobe", "devices"
            )
            assert done.returncode == 0, done.stderr
            assert [device["total"] for device in lines(done.stdout)[0]["devices"]] == [quota]


def test_that_a_job_of_each_other_kind_starts(running: Running) -> None:
    for node, node_set in running.node_sets():
        for name in running.expected(node_set):
            if not name.startswith("vgpu"):
                done = running.cluster.srun("-Q", f"--nodelist={node}", f"--gres={name}:1", "true")
                assert (done.returncode, done.stderr) == (0, ""), name
