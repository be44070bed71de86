"""A topology for people and programs: a matrix, or a structure for JSON."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from pysched.topology.model import Gpu, Topology
from pysched.topology.text import ranges_text

Used = Mapping[int, tuple[int, int]]
"""GPU index -> slots in use, slots in all."""


def label(topology: Topology, index: int) -> str:
    """GPU3, with its minor number where that is another one."""
    minor = topology.gpus[index].minor
    return f"GPU{index}" if minor in (None, index) else f"GPU{index} (nvidia{minor})"


def columns(topology: Topology, used: Used) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the matrix."""
    count = len(topology)
    headings = ["", *(f"GPU{index}" for index in range(count))]
    headings += [nic.name for nic in topology.nics] + ["NUMA", "CPUS"]
    headings += ["SLOTS"] if used else []
    rows = []
    for index, gpu in enumerate(topology.gpus):
        row = [label(topology, index)]
        row += ["X" if at == index else str(topology.link(index, at)) for at in range(count)]
        row += [nic.paths[index].name for nic in topology.nics]
        row += [ranges_text(gpu.numa) or "-", ranges_text(gpu.cpus) or "-"]
        if used:
            row.append("{}/{}".format(*used.get(index, (0, 0))))
        rows.append(row)
    return headings, rows


def summary(topology: Topology) -> str:
    """One sentence on what the links amount to."""
    largest = max(map(len, topology.linked_sets()), default=0)
    if largest < 2:
        return "No NVLink: all GPUs talk over PCIe."
    if largest == len(topology):
        way = "through switches" if topology.switch else "directly"
        return f"NVLink joins all {largest} GPUs {way}."
    sets = [clique for clique in topology.linked_sets() if len(clique) == largest]
    names = ", ".join("-".join(map(str, clique)) for clique in sorted(sets))
    return f"NVLink joins at most {largest} GPUs all to all: {names}."


def structure(topology: Topology, used: Used) -> dict[str, Any]:
    """Everything, for JSON."""
    return {
        "gpus": [_gpu(index, gpu, used) for index, gpu in enumerate(topology.gpus)],
        "links": [
            {
                "gpus": [one, other],
                "nvlinks": topology.link(one, other).nvlinks,
                "path": path.name if (path := topology.link(one, other).path) is not None else None,
                "gbps": round(topology.bandwidth(one, other), 3),
            }
            for one, other in combinations(range(len(topology)), 2)
        ],
        "nics": [
            {"name": nic.name, "paths": [path.name for path in nic.paths]} for nic in topology.nics
        ],
        "linked_sets": sorted(topology.linked_sets()),
        "switch": topology.switch,
        "socket_gbps": topology.socket,
    }


def _gpu(index: int, gpu: Gpu, used: Used) -> dict[str, Any]:
    described: dict[str, Any] = {
        "index": index,
        "minor": gpu.minor,
        "name": gpu.name or None,
        "numa": ranges_text(gpu.numa) or None,
        "cpus": ranges_text(gpu.cpus) or None,
        "nvlink_gbps": gpu.rates.nvlink,
        "pcie_gbps": gpu.rates.pcie,
    }
    if used:
        described["slots_used"], described["slots"] = used.get(index, (0, 0))
    return described
