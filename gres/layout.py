"""From the plan to what each node gets: slots, features, lines. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from gres.links import features as link_features
from gres.plan import Gpus, NodeSet, Nvlink, Plan, VgpuType
from pysched import hosts


@dataclass(frozen=True, slots=True)
class Slot:
    """One line entry of GRES vgpu; its index is its place in Layout.slots."""

    type: VgpuType
    gpu: int
    cores: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """What every node of a group has; equal layouts make one group."""

    gpus: tuple[Gpus, ...]  # one entry for each GPU, ascending
    slots: tuple[Slot, ...]
    features: tuple[str, ...]
    nvlink: Nvlink
    slurm: tuple[tuple[str, str], ...]

    def gres(self) -> dict[str, int]:
        """GRES with type as in ``Gres=`` -> count, in the order of gres.conf."""
        counts: dict[str, int] = {}
        for slot in self.slots:
            name = f"vgpu:{slot.type.name}"
            counts[name] = counts.get(name, 0) + 1
        for gpu in self.gpus:
            for name, count in _gpu_gres(gpu):
                counts[name] = counts.get(name, 0) + count
        return counts

    def gres_names(self) -> list[str]:
        return sorted({name.partition(":")[0] for name in self.gres()})


@dataclass(frozen=True, slots=True)
class Group:
    names: tuple[str, ...]
    layout: NodeLayout

    def hosts(self) -> str:
        return hosts.collect(self.names)


@dataclass(frozen=True, slots=True)
class Layout:
    plan: Plan
    groups: tuple[Group, ...]

    def types(self) -> list[VgpuType]:
        """The types in use, in natural order."""
        used = {slot.type for group in self.groups for slot in group.layout.slots}
        return sorted(used, key=lambda vgpu_type: hosts.natural_key(vgpu_type.name))

    def gres(self) -> list[str]:
        """GRES with types of all nodes, e.g. ``vgpu:a100-4g``, in natural order."""
        names = set(chain.from_iterable(group.layout.gres() for group in self.groups))
        return sorted(names, key=hosts.natural_key)


def build(plan: Plan) -> Layout:
    """Nodes that are alike become one group, whatever node set of the plan they come from."""
    alike: dict[NodeSet, list[str]] = {}
    for node_set in plan.nodes:
        alike.setdefault(replace(node_set, names=()), []).extend(node_set.names)
    names: dict[NodeLayout, list[str]] = {}
    for shape, members in alike.items():
        names.setdefault(_node_layout(shape), []).extend(members)
    groups = [
        Group(tuple(sorted(members, key=hosts.natural_key)), layout)
        for layout, members in names.items()
    ]
    groups.sort(key=lambda group: hosts.natural_key(group.names[0]))
    return Layout(plan, tuple(groups))


def _node_layout(node_set: NodeSet) -> NodeLayout:
    singles = chain.from_iterable(map(_single, node_set.gpus))
    gpus = tuple(sorted(singles, key=lambda gpu: gpu.minor))
    return NodeLayout(
        gpus=gpus,
        slots=tuple(_slots(gpus)),
        features=(*node_set.features, *link_features(gpus, node_set.nvlink)),
        nvlink=node_set.nvlink,
        slurm=node_set.slurm,
    )


def _single(entry: Gpus) -> Iterator[Gpus]:
    return (replace(entry, minors=(minor,)) for minor in entry.minors)


def _slots(gpus: Iterable[Gpus]) -> Iterator[Slot]:
    """All slots of a type, then the next type; within a type one slot of each GPU in turn.

    Slurm takes the first free slot, so neighbours in the list should be on different GPUs. Each
    type begins at another GPU, lest the first jobs of all types meet on GPU 0.
    """
    carriers = [gpu for gpu in gpus if gpu.vgpus]
    types = sorted(
        {vgpu_type for gpu in carriers for vgpu_type, _ in gpu.vgpus},
        key=lambda vgpu_type: hosts.natural_key(vgpu_type.name),
    )
    for number, vgpu_type in enumerate(types):
        having = [gpu for gpu in carriers if vgpu_type in dict(gpu.vgpus)]
        turn = number % len(having)
        having = having[turn:] + having[:turn]
        for round_ in range(max(dict(gpu.vgpus)[vgpu_type] for gpu in having)):
            for gpu in having:
                if round_ < dict(gpu.vgpus)[vgpu_type]:
                    yield Slot(vgpu_type, gpu.minor, gpu.cores)


def _gpu_gres(gpu: Gpus) -> Iterator[tuple[str, int]]:
    if gpu.whole or gpu.shards:
        yield f"gpu:{gpu.card.name}", 1
    if gpu.shards:
        yield "shard", gpu.shards
    for profile, ids in gpu.mig:
        yield f"gpu:{profile}", len(ids)
