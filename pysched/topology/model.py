"""The model of one machine's GPUs and the links between them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

from pysched.topology import rates
from pysched.topology.rates import Rates

if TYPE_CHECKING:
    import networkx

MOST_LINKS = 18
"""No GPU has more NVLinks: whoever seems to have more reaches a switch."""

MOST_GPUS = 32


class TopologyError(Exception):
    """One sentence with the place (source, line, column) where a map cannot be read."""

    def __init__(self, source: str, line: int, column: int, message: str) -> None:
        super().__init__(f"{source}:{line}:{column}: {message}")
        self.source, self.line, self.column, self.message = source, line, column, message


class Path(IntEnum):
    """The way between two devices over PCIe, with NVML's numbers: the closest first."""

    PSB = 0
    PIX = 10
    PXB = 20
    PHB = 30
    NODE = 40
    SYS = 50


@dataclass(frozen=True)
class Link:
    """What joins two GPUs: a bond of NVLinks, if any, and the way over PCIe, if it is known.

    ``nvidia-smi topo -m`` does not say the way of a pair that NVLinks join.
    """

    nvlinks: int = 0
    path: Path | None = None

    def __post_init__(self) -> None:
        if not self.nvlinks and self.path is None:
            raise ValueError("a link without NVLinks has a path")

    def __str__(self) -> str:
        return f"NV{self.nvlinks}" if self.path is None or self.nvlinks else self.path.name


Ranges = tuple[tuple[int, int], ...]
"""Numbers as inclusive ranges in rising order: ((0, 23), (48, 71))."""


@dataclass(frozen=True)
class Gpu:
    """One GPU. ``minor`` is the N of /dev/nvidiaN. Empty ``numa`` or ``cpus``: not known."""

    rates: Rates
    minor: int | None = None
    name: str = ""
    numa: Ranges = ()
    cpus: Ranges = ()

    @property
    def domain(self) -> Ranges:
        """What GPUs that are close to the same CPUs have in common; empty: not known."""
        return self.numa or self.cpus


@dataclass(frozen=True)
class Nic:
    """A network adapter and its way to each GPU."""

    name: str
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class Topology:
    """The GPUs of a machine, in its own order, and a link for each pair.

    ``links`` is the upper triangle by rows: pairs (0, 1), (0, 2), ... (1, 2), ...
    """

    gpus: tuple[Gpu, ...]
    links: tuple[Link, ...]
    nics: tuple[Nic, ...] = ()
    nic_links: tuple[Path, ...] = ()
    """Upper triangle of the adapters' paths to each other; empty where it is not known."""
    socket: float = rates.SOCKET
    switch: bool = False
    """An NVSwitch joins the NVLinks: all pairs share the links of their ends."""
    _index: dict[tuple[int, int], int] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        pairs = tuple(combinations(range(len(self.gpus)), 2))
        if len(pairs) != len(self.links):
            raise ValueError(
                f"{len(self.gpus)} GPUs have {len(pairs)} pairs, not {len(self.links)}"
            )
        object.__setattr__(self, "_index", {pair: at for at, pair in enumerate(pairs)})

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Topologies are keys of caches; hashing every link each time would cost more than a hit.
        return hash((self.gpus, self.links, self.nics, self.socket, self.switch))

    def __len__(self) -> int:
        return len(self.gpus)

    def link(self, one: int, other: int) -> Link:
        """The link between two different GPUs."""
        return self.links[self._index[min(one, other), max(one, other)]]

    def bandwidth(self, one: int, other: int) -> float:
        """GB/s in one direction between two different GPUs, over the better of NVLink and PCIe."""
        link, ends = self.link(one, other), (self.gpus[one].rates, self.gpus[other].rates)
        nvlink = link.nvlinks * min(end.nvlink for end in ends)
        if link.path is None:
            return nvlink
        return max(nvlink, pcie_bandwidth(link.path, min(end.pcie for end in ends), self.socket))

    @cached_property
    def graph(self) -> "networkx.Graph":
        """Nodes are GPU indices; edges carry ``bandwidth``, ``nvlinks`` and ``path``."""
        import networkx  # noqa: PLC0415 (loads slowly, and few need it)

        graph = networkx.Graph()
        for index, gpu in enumerate(self.gpus):
            graph.add_node(index, minor=gpu.minor, numa=gpu.numa)
        for one, other in self._index:
            link = self.link(one, other)
            graph.add_edge(
                one,
                other,
                bandwidth=self.bandwidth(one, other),
                nvlinks=link.nvlinks,
                path=link.path,
            )
        return graph

    def linked_sets(self) -> list[list[int]]:
        """The maximal sets of GPUs in which NVLink joins every pair."""
        import networkx  # noqa: PLC0415 (as above)

        linked = networkx.Graph()
        linked.add_nodes_from(range(len(self)))
        linked.add_edges_from(pair for pair in self._index if self.link(*pair).nvlinks)
        return [sorted(clique) for clique in networkx.find_cliques(linked)]


def pcie_bandwidth(path: Path, slot: float, socket: float) -> float:
    """GB/s of a way over PCIe, given the rates of the slots and between sockets."""
    if path <= Path.PXB:
        return slot
    if path is Path.PHB:
        return slot * rates.HOST_BRIDGE
    if path is Path.NODE:
        return slot * rates.WITHIN_NODE
    return min(slot * rates.BETWEEN_NODES, socket)


def guessed(gpus: Iterable[Gpu], links: Sequence[Link], count: int) -> tuple[tuple[Gpu, ...], bool]:
    """GPUs with the rates that their links suggest, and whether a switch must join them."""
    totals, most = [0] * count, 0
    for (one, other), link in zip(combinations(range(count), 2), links, strict=True):
        totals[one] += link.nvlinks
        totals[other] += link.nvlinks
        most = max(most, link.nvlinks)
    switch = max(totals, default=0) > MOST_LINKS
    guess = rates.guess(most if switch else max(totals, default=0))
    return tuple(replace(gpu, rates=guess) for gpu in gpus), switch


def numbers(ranges: Ranges) -> frozenset[int]:
    """The single numbers that ranges stand for."""
    return frozenset(number for low, high in ranges for number in range(low, high + 1))


def to_ranges(singles: Iterable[int]) -> Ranges:
    """Single numbers as ranges.

    >>> to_ranges([3, 1, 2, 7])
    ((1, 3), (7, 7))
    """
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(singles)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return tuple(ranges)
