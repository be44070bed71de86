"""Machines to place on: those of tests/data/topo that read, and larger ones made of them."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path as FilePath

from pysched.topology import Gpu, Link, Path, Topology, TopologyError, smi
from pysched.topology.rates import Rates

FOLDER = FilePath(__file__).parents[1] / "data" / "topo"
RATES = Rates(20.0, 24.0)


def recorded() -> dict[str, Topology]:
    """Every map of the collection that is not damaged."""
    found = {}
    for path in sorted(FOLDER.iterdir()):
        try:
            found[path.stem] = smi.read(path.read_text(), path.name)
        except TopologyError:
            continue
    return found


def made(gpus: int, link: Callable[[int, int], Link]) -> Topology:
    pairs = combinations(range(gpus), 2)
    return Topology((Gpu(RATES),) * gpus, tuple(link(*pair) for pair in pairs))


def sixteen() -> dict[str, Topology]:
    """Machines of 16 GPUs: NVSwitch, two cube meshes, bridged pairs, PCIe switches."""
    mesh = recorded()["dgx1_v100_4nic"]

    def meshes(one: int, other: int) -> Link:
        if one // 8 == other // 8:
            return mesh.link(one % 8, other % 8)
        return Link(path=Path.SYS)

    def pairs(one: int, other: int) -> Link:
        if one // 2 == other // 2:
            return Link(12)
        return Link(path=Path.NODE if one // 8 == other // 8 else Path.SYS)

    def switches(one: int, other: int) -> Link:
        if one // 8 != other // 8:
            return Link(path=Path.SYS)
        if one // 4 != other // 4:
            return Link(path=Path.NODE)
        return Link(path=Path.PIX if one // 2 == other // 2 else Path.PXB)

    return {
        "nvswitch of 16": made(16, lambda one, other: Link(6)),
        "two cube meshes": made(16, meshes),
        "eight bridged pairs": made(16, pairs),
        "PCIe switches of 16": made(16, switches),
    }
