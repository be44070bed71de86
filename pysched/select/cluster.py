"""The nodes of the cluster as vgpu-select sees them: many nodes, few shapes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

from pysched.placement import Affinity, Placement, PlacementError, Request, engine, patterns
from pysched.placement.patterns import Matrix
from pysched.slurm import NodeInfo
from pysched.topology import Gpu, Link, Path, Topology, TopologyError, report
from pysched.topology.rates import guess
from pysched.vgpuconf import Type, VgpuConf, VgpuConfError

ANY = ""
OURS = "vgpu-"
LINKED = "vgpu-nvlink"
RUNGS = (2, 4, 8, 16)
MANY_LINKS = 12


@dataclass(frozen=True)
class Wanted:
    """vGPUs of one node: a type for each, or ANY; who talks to whom, and what is demanded."""

    types: tuple[str, ...]
    demand: Matrix
    pattern: str
    affinity: Affinity
    colocate: bool = False

    @property
    def count(self) -> int:
        return len(self.types)

    def talking(self, comm: str) -> "Wanted":
        """The same vGPUs with another pattern."""
        return replace(self, demand=patterns.matrix(comm, self.count), pattern=comm)


Homes = tuple[tuple[int, str], ...]
"""Minor number and type of each slot, by its index."""


@dataclass(frozen=True)
class Shape:
    """What nodes have in common for placement. ``topology`` is None where no agent reported one.

    Answers are remembered here: a cluster of thousands of nodes has a handful of shapes.
    """

    topology: Topology | None
    homes: Homes
    features: frozenset[str]

    @cached_property
    def ours(self) -> frozenset[str]:
        """The features that the generator gives nodes for their links."""
        return frozenset(each for each in self.features if each.startswith(OURS))

    @cached_property
    def places(self) -> dict[int, Counter[str]]:
        """Minor number -> type (and ANY) -> slots that are at home there."""
        found: dict[int, Counter[str]] = {}
        for minor, kind in self.homes:
            found.setdefault(minor, Counter()).update((kind, ANY))
        return found

    def most(self, kind: str) -> int:
        """The most vGPUs of a type on different GPUs."""
        return sum(1 for kinds in self.places.values() if kinds[kind])

    def slots(self, kind: str) -> int:
        return sum(kinds[kind] for kinds in self.places.values())

    def can(self, wanted: Wanted) -> bool:
        """Whether the shape can ever give a request. Who talks to whom has no say in that."""
        return self.best(wanted.talking("none")) is not None

    def best(self, wanted: Wanted) -> Placement | None:
        """What the shape gives a request while nothing else runs; None if it never can."""
        if wanted not in self._answers:
            self._answers[wanted] = self._solve(wanted)
        return self._answers[wanted]

    def best_known(self, wanted: Wanted) -> Placement | None:
        """The same without working it out: nobody is to wait for that in slurmctld."""
        return self._answers.get(wanted)

    def prepare(self) -> None:
        """Work out the common requests."""
        for kind in {ANY, *(kind for _, kind in self.homes)}:
            for count in range(1, self.most(kind) + 1):
                for affinity in (Affinity.PREFER_NVLINK, Affinity.REQUIRE_NVLINK):
                    silent = Wanted(
                        (kind,) * count, patterns.matrix("none", count), "none", affinity
                    )
                    if self.best(silent):
                        self.best(silent.talking(patterns.DEFAULT))

    @cached_property
    def _answers(self) -> dict[Wanted, Placement | None]:
        return {}

    def _solve(self, wanted: Wanted) -> Placement | None:
        if wanted.affinity is Affinity.REQUIRE_NVLINK and not self._may_be_linked(wanted.count):
            return None
        topology = self.topology or self._assumed(wanted.count)
        index = {gpu.minor: at for at, gpu in enumerate(topology.gpus)}
        free = {index[minor]: dict(kinds) for minor, kinds in self.places.items() if minor in index}
        hard_and_unknown = self.topology is None and wanted.affinity.hard
        request = Request(
            demand=wanted.demand,
            types=wanted.types,
            pattern=wanted.pattern,
            affinity=Affinity.NONE if hard_and_unknown else wanted.affinity,
        )
        try:
            return engine.place(topology, free, request)
        except PlacementError:
            return None

    def _may_be_linked(self, count: int) -> bool:
        """Whether so many GPUs can be linked, by the features where there is no topology."""
        return self.topology is not None or not self.ours or self._has_rung(count)

    def _has_rung(self, count: int) -> bool:
        """Whether a feature says that so many GPUs are linked all to all."""
        return any(f"{LINKED}{rung}" in self.ours for rung in RUNGS if rung >= count)

    def _assumed(self, count: int) -> Topology:
        """GPUs of which only the features say how they are linked."""
        gpus = tuple(Gpu(guess(MANY_LINKS), minor) for minor in self.places)
        link = Link(MANY_LINKS) if self._has_rung(count) else Link(path=Path.SYS)
        return Topology(gpus, tuple(link for _ in combinations(gpus, 2)))


@dataclass(frozen=True)
class Need:
    """What a request takes of a node beside vGPUs: CPUs, and memory in MiB."""

    cpus: int
    memory: int


@dataclass(frozen=True)
class NodeView:
    info: NodeInfo
    shape: Shape

    def has_room(self, wanted: Wanted, need: Need) -> bool:
        """Whether the request could start now, by what Slurm counts. Not a promise: Slurm decides.

        A slot in use is taken to be at home, which is where it is unless vgpud moved it.
        """
        info = self.info
        if not info.usable or info.cpus - info.cpus_used < need.cpus:
            return False
        if info.memory - info.memory_used < need.memory:
            return False
        free = self.free
        return all(
            sum(1 for kinds in free.values() if kinds[kind]) >= count
            if not wanted.colocate
            else sum(kinds[kind] for kinds in free.values()) >= count
            for kind, count in Counter(wanted.types).items()
        )

    @cached_property
    def free(self) -> dict[int, Counter[str]]:
        found: dict[int, Counter[str]] = {}
        for slot, (minor, kind) in enumerate(self.shape.homes):
            if slot not in self.info.used_slots:
                found.setdefault(minor, Counter()).update((kind, ANY))
        return found


@dataclass(frozen=True)
class Snapshot:
    """The cluster at one moment. ``groups``: nodes of one shape that are in the same partitions."""

    groups: Mapping[tuple[Shape, tuple[str, ...]], list[NodeView]]
    types: Mapping[str, Type]
    answers: dict[object, object] = field(default_factory=dict)
    """Decisions that hold as long as the snapshot does."""
    unsolved: set[Wanted] = field(default_factory=set)
    """Requests with patterns that somebody should work out when nobody waits."""

    def prepare(self, wanted: Iterable[Wanted] = ()) -> None:
        """Work out common requests and these, on each shape."""
        for shape in {shape for shape, _ in self.groups}:
            shape.prepare()
            for each in wanted:
                shape.best(each)

    def in_partitions(self, names: Iterable[str]) -> Iterator[tuple[Shape, list[NodeView]]]:
        """The groups in any of the partitions; all where none is named."""
        wanted = set(names)
        for (shape, partitions), nodes in self.groups.items():
            if not wanted or wanted & set(partitions):
                yield shape, nodes


class Builder:
    """Makes snapshots, and keeps what stays the same from one to the next."""

    def __init__(self) -> None:
        self._conf: VgpuConf | None = None
        self._homes: dict[str, Homes] = {}
        self._topologies: dict[str, Topology | None] = {}
        self._shapes: dict[tuple[str | None, Homes, frozenset[str]], Shape] = {}
        self._views: dict[str, NodeView] = {}
        self.problems: set[str] = set()

    def build(self, nodes: Iterable[NodeInfo], conf: VgpuConf | None) -> Snapshot:
        """A snapshot of these nodes; those without vGPUs are left out."""
        if conf is not self._conf:
            self._conf = conf
            self._homes.clear()
            self._views.clear()
        self.problems.clear()
        groups: dict[tuple[Shape, tuple[str, ...]], list[NodeView]] = {}
        for info in nodes:
            if info.slots:
                view = self._view(info)
                groups.setdefault((view.shape, info.partitions), []).append(view)
        return Snapshot(groups, conf.types if conf else {})

    def _view(self, info: NodeInfo) -> NodeView:
        known = self._views.get(info.name)
        if known is not None and known.info == info:
            return known
        key = (info.report, self._homes_of(info), info.features)
        if key not in self._shapes:
            self._shapes[key] = Shape(self._topology(info), key[1], info.features)
        view = self._views[info.name] = NodeView(info, self._shapes[key])
        return view

    def _homes_of(self, info: NodeInfo) -> Homes:
        """Where vgpu.conf has the node's slots; each on a GPU of its own where it does not say."""
        if info.name not in self._homes:
            found: Homes = ()
            try:
                if self._conf is not None:
                    slots = self._conf.node(info.name).slots
                    found = tuple((slot.gpu.minor, slot.type.name) for slot in slots)
            except VgpuConfError as error:
                self.problems.add(str(error))
            if not found:
                kinds = [kind for kind, count in info.slots.items() for _ in range(count)]
                found = tuple(enumerate(kinds))
            self._homes[info.name] = found
        return self._homes[info.name]

    def _topology(self, info: NodeInfo) -> Topology | None:
        if info.report is None:
            return None
        if info.report not in self._topologies:
            try:
                self._topologies[info.report] = report.read(info.report, f"report of {info.name}")
            except TopologyError as error:
                self.problems.add(str(error))
                self._topologies[info.report] = None
        return self._topologies[info.report]
