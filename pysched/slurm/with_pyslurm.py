"""Nodes through pyslurm, where it is installed and was built for the running release of Slurm.

Written against the documented attributes of pyslurm 25.11 and a recorded dump of it
(tests/data/pyslurm). It loads nodes without the detail that says what is in use, so use is taken
from the jobs.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from pysched.slurm import model
from pysched.slurm.model import NodeInfo, SlurmError
from pysched.topology.model import numbers
from pysched.topology.text import parse_ranges

RUNNING = ("RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING")

Use = dict[str, dict[str, int]]
Slots = dict[str, set[int]]


def nodes(pyslurm: ModuleType) -> list[NodeInfo]:
    try:
        loaded, jobs = pyslurm.Nodes.load(), pyslurm.Jobs.load()
    except Exception as error:
        raise SlurmError(f"pyslurm: {error}") from None
    return convert(loaded, jobs)


def convert(loaded: Mapping[str, Any], jobs: Mapping[int, Any]) -> list[NodeInfo]:
    """pyslurm's Nodes and Jobs as nodes with their use."""
    used, slots = _use(jobs.values())
    return [_node(node, used[node.name], slots[node.name]) for node in loaded.values()]


def _node(node: Any, used: Mapping[str, int], slots: set[int]) -> NodeInfo:
    gres = {
        name.removeprefix(model.GRES).removeprefix(":"): count
        for name, count in node.configured_gres.items()
        if name.partition(":")[0] == model.GRES
    }
    return NodeInfo(
        name=node.name,
        states=model.states_of(node.state),
        partitions=tuple(node.partitions),
        features=frozenset(node.active_features or node.available_features),
        slots=gres,
        used=used,
        used_slots=frozenset(slots),
        cpus=node.total_cpus,
        cpus_used=node.allocated_cpus,
        memory=node.real_memory,
        memory_used=node.allocated_memory,
        report=model.report_of(node.extra),
    )


def _use(jobs: Iterable[Any]) -> tuple[Use, Slots]:
    """Per node: slots in use by type, and their indices."""
    used: Use = defaultdict(lambda: defaultdict(int))
    slots: Slots = defaultdict(set)
    for job in jobs:
        if job.state not in RUNNING:
            continue
        for name, layout in job.get_resource_layout_per_node().items():
            for gres, held in layout["gres"].items():
                family, _, kind = gres.partition(":")
                if family == model.GRES:
                    used[name][kind] += held["count"]
                    slots[name] |= numbers(parse_ranges(held["indexes"]))
    return used, slots
