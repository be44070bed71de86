"""From the plan to what each node gets: slots, features, lines. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby


from gres.links import features as link_features
from gres.plan import Gpus, NodeSet, Nvlink, Plan, VgpuType
from pysched import hosts, paths, sizes


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

    def host_lines(self) -> list[str]:
        return hosts.collect_lines(self.names)


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
    names: dict[NodeLayout, list[str]] = {}
    for node_set in plan.nodes:
        names.setdefault(_node_layout(node_set), []).extend(node_set.names)
    groups = [
        Group(tuple(sorted(members, key=hosts.natural_key)), layout)
        for layout, members in names.items()
    ]
    groups.sort(key=lambda group: hosts.natural_key(group.names[0]))
    return Layout(plan, tuple(groups))


def _node_layout(node_set: NodeSet) -> NodeLayout:
    gpus = tuple(sorted(chain.from_iterable(map(_single, node_set.gpus)), key=_minor))
    return NodeLayout(
        gpus=gpus,
        slots=tuple(_slots(gpus)),
        features=(*node_set.features, *link_features(gpus, node_set.nvlink)),
        nvlink=node_set.nvlink,
        slurm=node_set.slurm,
    )


def _single(entry: Gpus) -> Iterator[Gpus]:
    for minor in entry.minors:
        yield Gpus(
            (minor,), entry.card, entry.cores, entry.uuid, entry.vgpus, entry.whole, entry.shards,
            entry.mig,
        )  # fmt: skip


def _minor(gpu: Gpus) -> int:
    return gpu.minors[0]


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
                    yield Slot(vgpu_type, _minor(gpu), gpu.cores)


def _gpu_gres(gpu: Gpus) -> Iterator[tuple[str, int]]:
    if gpu.whole or gpu.shards:
        yield f"gpu:{gpu.card.name}", 1
    if gpu.shards:
        yield f"shard:{gpu.card.name}", gpu.shards
    for profile, ids in gpu.mig:
        yield f"gpu:{profile}", len(ids)


# --- lines of gres.conf ---------------------------------------------------------------------------


def gres_lines(layout: NodeLayout) -> list[str]:
    """The lines of gres.conf for a node, without NodeName."""
    return [*_slot_lines(layout.slots), *_gpu_lines(layout)]


def _slot_lines(slots: tuple[Slot, ...]) -> Iterator[str]:
    """Neighbours with the same type and cores share a line; each slot has a file of its own."""
    numbered = enumerate(slots)
    for (vgpu_type, cores), run in groupby(numbered, key=lambda n: (n[1].type, n[1].cores)):
        indices = [index for index, _ in run]
        yield (
            f"Name=vgpu Type={vgpu_type.name} File={paths.SLOTS_DIR}/{_bracket(indices)}"
            f"{_cores(cores)}"
        )


def _gpu_lines(layout: NodeLayout) -> Iterator[str]:
    for gpu in layout.gpus:
        device = f"/dev/nvidia{_minor(gpu)}"
        if gpu.whole or gpu.shards:
            yield f"Name=gpu Type={gpu.card.name} File={device}{_cores(gpu.cores)}"
        for profile, ids in gpu.mig:
            for instance in ids:
                files = ",".join([device, *mig_devices(_minor(gpu), instance)])
                yield f"Name=gpu Type={profile} MultipleFiles={files}{_cores(gpu.cores)}"
    for gpu in layout.gpus:
        if gpu.shards:
            yield (
                f"Name=shard Type={gpu.card.name} Count={gpu.shards} "
                f"File=/dev/nvidia{_minor(gpu)}{_cores(gpu.cores)}"
            )


def mig_devices(minor: int, instance: int) -> list[str]:
    """Capability files of a GPU instance and of its compute instance 0.

    The driver numbers them in a fixed way (/proc/driver/nvidia-caps/mig-minors): two for all, then
    for each GPU 15 GPU instances with one file and 8 compute instances each.
    """
    first = 3 + minor * 15 * 9 + instance * 9
    return [f"/dev/nvidia-caps/nvidia-cap{number}" for number in (first, first + 1)]


def ranges(numbers: Iterable[int]) -> str:
    """``0-3,8``."""
    parts = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        parts.append(f"{members[0]}-{members[-1]}" if len(members) > 1 else str(members[0]))
    return ",".join(parts)


def _bracket(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"[{ranges(numbers)}]"


def _cores(cores: tuple[int, ...]) -> str:
    return f" Cores={ranges(cores)}" if cores else ""


# --- lines of vgpu.conf ---------------------------------------------------------------------------


def vgpu_conf_lines(layout: NodeLayout) -> list[str]:
    """The lines of vgpu.conf for a node, without Node."""
    return [*_conf_gpus(layout.gpus), *_conf_slots(layout.slots)]


def _conf_gpus(gpus: tuple[Gpus, ...]) -> Iterator[str]:
    for gpu in gpus:
        if gpu.vgpus:
            card = gpu.card
            reserve = f" Reserve={sizes.format_size(card.reserve)}" if card.reserve else ""
            uuid = f" UUID={gpu.uuid}" if gpu.uuid else ""
            yield (
                f"GPU={_minor(gpu)} Memory={sizes.format_size(card.memory)}{reserve} "
                f"SMs={card.sms}{uuid}"
            )


def _conf_slots(slots: tuple[Slot, ...]) -> Iterator[str]:
    for vgpu_type, run in groupby(enumerate(slots), key=lambda numbered: numbered[1].type):
        members = list(run)
        first = members[0][0]
        for start, length, turn in _turns([slot.gpu for _, slot in members]):
            last = first + start + length - 1
            span = f"{first + start}-{last}" if length > 1 else str(last)
            gpus = ",".join(map(str, turn))
            yield f"Slot={span} Type={vgpu_type.name} GPU={gpus}"


def _turns(gpus: list[int]) -> Iterator[tuple[int, int, list[int]]]:
    """Cut a sequence into (start, length, turn) such that each piece repeats its turn.

    >>> list(_turns([0, 1, 0, 1, 0, 2]))
    [(0, 5, [0, 1]), (5, 1, [2])]
    """
    start = 0
    while start < len(gpus):
        turn = [gpus[start]]
        while start + len(turn) < len(gpus) and gpus[start + len(turn)] not in turn:
            turn.append(gpus[start + len(turn)])
        end = start + len(turn)
        while end < len(gpus) and gpus[end] == turn[(end - start) % len(turn)]:
            end += 1
        yield start, end - start, turn
        start = end
