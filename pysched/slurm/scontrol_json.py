"""Nodes from ``scontrol show nodes --json``, which has all that is needed from 24.11 on."""

import json
from collections.abc import Mapping
from typing import Any

from pysched.slurm import model, scontrol
from pysched.slurm.model import NodeInfo, SlurmError


def nodes() -> list[NodeInfo]:
    return parse(scontrol.run(["show", "nodes", "-d", "--json"]))


def parse(printed: str) -> list[NodeInfo]:
    try:
        return [_node(each) for each in json.loads(printed)["nodes"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"{type(error).__name__} {error}"
        raise SlurmError(f"scontrol show nodes --json cannot be read: {what}") from None


def _node(node: Mapping[str, Any]) -> NodeInfo:
    used = model.vgpus(node["gres_used"])
    return NodeInfo(
        name=node["name"],
        states=frozenset(node["state"]),
        partitions=tuple(node["partitions"]),
        features=frozenset(node["active_features"] or node["features"]),
        slots=model.by_type(model.vgpus(node["gres"])),
        used=model.by_type(used),
        used_slots=frozenset[int]().union(*(each.indices for each in used)),
        cpus=int(node["cpus"]),
        cpus_used=int(node["alloc_cpus"]),
        memory=int(node["real_memory"]),
        memory_used=int(node["alloc_memory"]),
        report=model.report_of(node.get("extra")),
    )
