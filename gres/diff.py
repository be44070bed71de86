"""What a new plan changes on each node, and what must be done for it, in which order."""

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from gres import slurmconf
from gres.check.slurm_conf import differences
from gres.check.state import State
from gres.check.vgpu_conf import changed_settings
from gres.layout import Group
from gres.slurmconf import Entry, Line
from pysched import hosts
from pysched.vgpuconf import Node, Slot, Type, VgpuConfError


class Need(IntEnum):
    """What a change of a node needs; the greater includes the smaller ones but for RECONFIGURE."""

    RECONFIGURE = 1
    VGPUD = 2
    SLURM = 3
    DRAIN = 4


MEANING = {
    Need.RECONFIGURE: "scontrol reconfigure",
    Need.VGPUD: "restart vgpud",
    Need.SLURM: "restart Slurm's daemons",
    Need.DRAIN: "drain first",
}


@dataclass(frozen=True, slots=True)
class Change:
    need: Need
    text: str


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    user: str
    nodes: str


@dataclass(frozen=True)
class Difference:
    """Changes and the nodes that have them, greatest need first."""

    changes: dict[tuple[Change, ...], list[str]]
    cluster: tuple[Change, ...]

    def nodes(self, *needs: Need) -> list[str]:
        found = [
            name
            for changes, names in self.changes.items()
            if any(change.need in needs for change in changes)
            for name in names
        ]
        return sorted(found, key=hosts.natural_key)

    def __bool__(self) -> bool:
        return bool(self.changes or self.cluster)


def compare(state: State) -> Difference:
    """Installed files against the plan."""
    changes: dict[tuple[Change, ...], list[str]] = {}
    for alike in state.alike:
        found = tuple(_node(state, alike.group, alike.names[0], alike.line))
        if found:
            changes.setdefault(found, []).extend(alike.names)
    planned = set(state.group_of())
    for name in _nodes_with_vgpus(state) - planned:
        gone = Change(Need.DRAIN, "is not in the plan any more: loses its vGPUs")
        changes.setdefault((gone,), []).append(name)
    ordered = sorted(changes.items(), key=lambda item: -max(change.need for change in item[0]))
    return Difference(dict(ordered), tuple(_cluster(state)))


def _nodes_with_vgpus(state: State) -> set[str]:
    lines = [line for line in state.gres or [] if line.values.get("name") == "vgpu"]
    return {name for line in lines for name in slurmconf.host_set(line.values.get("nodename", ""))}


# --- one node -------------------------------------------------------------------------------------


def _node(state: State, group: Group, name: str, line: Line | None) -> Iterator[Change]:
    old = slurmconf.gres_entries(state.gres or [], name)
    new = slurmconf.gres_entries(state.expected_gres, name)
    if not old:
        yield Change(Need.SLURM, f"is new: {_list(slurmconf.gres_counts(new))}")
        return
    yield from _devices(old, new)
    yield from _slots(_conf_node(state, name), state.expected_conf.node(name))
    if line is not None:
        yield from _line(group, line)


def _devices(old: list[Entry], new: list[Entry]) -> Iterator[Change]:
    counts, wanted = slurmconf.gres_counts(old), slurmconf.gres_counts(new)
    if counts != wanted:
        before = {name: counts.get(name, 0) for name in counts | wanted}
        parts = [
            f"{name} {before[name]} -> {wanted.get(name, 0)}"
            for name in before
            if before[name] != wanted.get(name, 0)
        ]
        yield Change(Need.DRAIN, ", ".join(parts))
    elif [(e.gres, e.file) for e in old] != [(e.gres, e.file) for e in new]:
        yield Change(Need.DRAIN, "the order of devices in gres.conf")
    elif [e.device for e in old] != [e.device for e in new]:
        yield Change(Need.SLURM, "Cores= or Links= in gres.conf")


def _conf_node(state: State, name: str) -> Node | None:
    try:
        return state.conf.node(name) if state.conf else None
    except VgpuConfError:
        return None


def _slots(old: Node | None, new: Node) -> Iterator[Change]:
    if old is None:
        if new.slots:
            yield Change(Need.DRAIN, "vgpu.conf, which cannot be read now")
        return
    if [_home(slot) for slot in old.slots] != [_home(slot) for slot in new.slots]:
        if len(old.slots) == len(new.slots):
            yield Change(Need.DRAIN, "which GPUs slots are at home on")
    elif set(old.gpus) != set(new.gpus):
        yield Change(Need.VGPUD, "the description of cards")
    before = {slot.type.name: slot.type for slot in old.slots}
    after = {slot.type.name: slot.type for slot in new.slots}
    for name in sorted(before.keys() & after.keys(), key=hosts.natural_key):
        yield from _type(before[name], after[name])


def _home(slot: Slot) -> tuple[str, int]:
    return slot.type.name, slot.gpu.minor


def _type(old: Type, new: Type) -> Iterator[Change]:
    """A quota or guarantee that a running job was promised does not change under it."""
    promised = ("memory", "sms", "max_sms")
    for field in (*promised, "slice_ms", "policy"):
        before, after = getattr(old, field), getattr(new, field)
        if before != after:
            need = Need.DRAIN if field in promised else Need.VGPUD
            label = field.removesuffix("_ms")
            yield Change(need, f"type {new.name}: {label} {_value(field, before)} -> "
                               f"{_value(field, after)}")  # fmt: skip


def _value(field: str, value: object) -> str:
    if field == "memory":
        return f"{int(str(value)) >> 20}MiB"
    return f"{value}ms" if field == "slice_ms" else str(value)


def _line(group: Group, line: Line) -> Iterator[Change]:
    layout = group.layout
    difference = differences(layout.gres(), slurmconf.parse_gres(line.values.get("gres", "")))
    if difference:
        yield Change(Need.SLURM, "Gres= of the NodeName line")
    features = line.values.get("feature", line.values.get("features", ""))
    if set(layout.features) - set(features.split(",")):
        yield Change(Need.RECONFIGURE, "features")
    for name, value in layout.slurm:
        before = line.values.get(name.lower(), "nothing")
        if before != value:
            yield Change(Need.SLURM, f"{name} {before} -> {value}")


def _list(counts: dict[str, int]) -> str:
    return ", ".join(f"{name}:{count}" for name, count in counts.items())


# --- the whole cluster ----------------------------------------------------------------------------


def _cluster(state: State) -> Iterator[Change]:
    if state.slurm is None:
        return
    line = slurmconf.last(state.slurm, "GresTypes")
    present = set(line.values["grestypes"].split(",")) if line else set()
    wanted = {name for group in state.layout.groups for name in group.layout.gres_names()}
    lacking = sorted(wanted - present)
    if lacking:
        yield Change(Need.SLURM, f"GresTypes gets {', '.join(lacking)}")
    for key in changed_settings(state.expected_conf, state.conf) if state.conf else []:
        yield Change(Need.VGPUD, f"{key} of vgpu.conf")


# --- jobs and steps -------------------------------------------------------------------------------


def jobs(names: Sequence[str]) -> list[Job]:
    """Jobs that run on these nodes now; none where squeue does not answer."""
    if not names:
        return []
    command = ["squeue", "-h", "-t", "R,CG,S", "-w", hosts.collect(names), "-o", "%i|%u|%N"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [Job(*line.split("|")) for line in done.stdout.splitlines() if line.count("|") == 2]


def steps(difference: Difference, plan: Path, folder: Path) -> list[str]:
    """The commands, in order."""
    drain = difference.nodes(Need.DRAIN)
    slurm = difference.nodes(Need.DRAIN, Need.SLURM)
    vgpud = difference.nodes(Need.DRAIN, Need.VGPUD)
    commands: list[str] = []
    if drain:
        name = hosts.collect(drain)
        commands.append(f"scontrol update NodeName={name} State=DRAIN Reason='vgpu: new plan'")
        commands.append(f"wait until squeue -w {name} shows no job")
    if difference:
        commands.append(f"vgpu config generate {plan} -o {folder}, and copy the files to all nodes")
    whole_cluster = {change.need for change in difference.cluster}
    if slurm or Need.SLURM in whole_cluster:
        where = "all nodes" if Need.SLURM in whole_cluster else hosts.collect(slurm)
        commands.append(f"systemctl stop slurmd on {where}")
        commands.append("systemctl restart slurmctld on the controller")
        commands.append(f"systemctl start slurmd on {where}")
    elif difference.nodes(Need.RECONFIGURE):
        commands.append("scontrol reconfigure")
    if vgpud or Need.VGPUD in whole_cluster:
        where = "all nodes" if Need.VGPUD in whole_cluster else hosts.collect(vgpud)
        commands.append(f"systemctl restart vgpud on {where}")
    if drain:
        commands.append(f"scontrol update NodeName={hosts.collect(drain)} State=RESUME")
    if difference:
        commands.append(f"vgpu config check {plan}")
    return commands
