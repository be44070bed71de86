"""Reads plan.yaml strictly: every error is one sentence with file, line and key path."""

import gc
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gres import document, release, values
from gres.document import PlanError, Value
from gres.plan import (
    MAX_GPU,
    MAX_PRESETS,
    MAX_SLOTS,
    MAX_SMS,
    MAX_TYPES,
    MAX_VGPU_GPUS,
    Burst,
    Card,
    Cluster,
    Gpus,
    NodeSet,
    Nvlink,
    Plan,
    VgpuType,
)
from pysched import hosts, sizes

VERSION = 1


def read(path: Path) -> Plan:
    """The plan in the file; PlanError with one sentence for anything that is not right."""
    try:
        return parse(path.read_bytes(), str(path))
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror}") from None


def parse(data: bytes, name: str = "plan.yaml") -> Plan:
    """The same from memory."""
    try:
        with _no_collection():
            return _plan(document.parse(data, name))
    except RecursionError:
        raise PlanError(f"{name}:1: expected a plan, found a document inside itself") from None


@contextmanager
def _no_collection() -> Iterator[None]:
    """Nothing that reading makes is garbage before its end; looking for some takes most time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _plan(root: Value) -> Plan:
    optional = ["defaults", "workloads", "bursts", "cluster"]
    fields = root.fields(["version", "cards", "types", "nodes"], optional)
    fields["version"].integer(VERSION, VERSION)
    defaults = _defaults(fields.get("defaults"))
    cards = {n: _card(n, v, defaults) for n, v in values.named(fields["cards"], "the card")}
    types = {n: _type(n, v, defaults) for n, v in values.named(fields["types"], "the type")}
    if defaults.card:
        _known_card(fields["defaults"].mapping()["card"], defaults.card, cards)
    reader = _NodeReader(cards, types, defaults)
    nodes = tuple(reader.read(value) for value in fields["nodes"].items("a list of node sets"))
    if not nodes:
        raise fields["nodes"].error("expected at least one node set, found an empty list")
    used = {vgpu_type.name for node_set in nodes for vgpu_type in node_set.types()}
    if len(used) > MAX_TYPES:
        raise fields["types"].error(f"expected at most {MAX_TYPES} types in use, found {len(used)}")
    cluster = _cluster(fields["cluster"]) if "cluster" in fields else Cluster()
    workloads = _workloads(fields["workloads"]) if "workloads" in fields else presets()
    bursts = _bursts(fields["bursts"]) if "bursts" in fields else ()
    return Plan(root.file, cluster, types, nodes, workloads, bursts)


# --- the parts of a plan ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Defaults:
    reserve: int = 0
    slice_ms: int = 10
    policy: str = "share"
    card: str = ""
    features: tuple[str, ...] = ()
    slurm: tuple[tuple[str, str], ...] = ()


def _defaults(value: Value | None) -> _Defaults:
    if value is None:
        return _Defaults()
    read: dict[str, Callable[[Value], Any]] = {
        "reserve": values.size,
        "slice": values.slice_ms,
        "policy": values.policy,
        "card": lambda v: v.text("the name of a card"),
        "features": values.features,
        "slurm": values.parameters,
    }
    found = value.fields([], read)
    names = {"slice": "slice_ms"}
    return _Defaults(**{names.get(key, key): read[key](found[key]) for key in found})


def _cluster(value: Value) -> Cluster:
    read: dict[str, Callable[[Value], Any]] = {
        "slurm": lambda v: v.parsed(release.parse, "a release of Slurm such as 22.05"),
        "plugin_dir": values.directories,
        "runtime_dir": values.directory,
        "gres_types": lambda v: values.words(v, values.WORD, "a GRES name"),
        "accounting": Value.boolean,
        "accounting_tres": lambda v: values.words(v, values.TRES, "a TRES such as gres/nic"),
        "job_submit_plugins": lambda v: values.words(v, values.WORD, "a job_submit plugin's name"),
        "submit_bridge": Value.boolean,
        "billing": lambda v: v.integer(1, 1_000_000),
        "slices": values.slice_range,
    }
    found = value.fields([], [*read, "backstop"])
    settings = {key: read[key](found[key]) for key in found if key != "backstop"}
    if "backstop" in found:
        settings |= _backstop(found["backstop"])
    for key in ("accounting_tres", "billing"):
        if key in found and not settings.get("accounting"):
            raise found[key].error(f"expected accounting: true beside {key}, found none")
    return Cluster(**settings)


def _backstop(value: Value) -> dict[str, Any]:
    found = value.fields([], ["mode", "tolerance", "time"])
    settings: dict[str, Any] = {}
    if "mode" in found:
        settings["backstop"] = found["mode"].choice(["end", "warn", "off"])
    if "tolerance" in found:
        settings["tolerance"] = values.size(found["tolerance"])
    if "time" in found:
        settings["tolerance_ms"] = values.milliseconds(found["time"], 1, 3_600_000)
    return settings


def presets() -> tuple[tuple[str, int], ...]:
    """Workloads of a plan that names none."""
    table: dict[str, str] = json.loads(Path(__file__).with_name("workloads.json").read_text())
    return tuple((name, sizes.parse_milliseconds(table[name])) for name in sorted(table))


def _workloads(value: Value) -> tuple[tuple[str, int], ...]:
    found = values.named(value, "the workload")
    if len(found) > MAX_PRESETS:
        raise value.error(f"expected at most {MAX_PRESETS} workloads, found {len(found)}")
    return tuple(sorted((name, values.slice_ms(item)) for name, item in found))


def _bursts(value: Value) -> tuple[Burst, ...]:
    found = values.named(value, "the burst class")
    if len(found) > MAX_PRESETS:
        raise value.error(f"expected at most {MAX_PRESETS} burst classes, found {len(found)}")
    return tuple(sorted((_burst(name, item) for name, item in found), key=lambda b: b.name))


def _burst(name: str, value: Value) -> Burst:
    found = value.fields(["time"], ["qos", "partitions"])
    burst = Burst(
        name,
        values.milliseconds(found["time"], 1, 10_000),
        values.words(found["qos"], values.JOB_LIST, "a QOS") if "qos" in found else (),
        values.words(found["partitions"], values.JOB_LIST, "a partition")
        if "partitions" in found
        else (),
    )
    if not burst.qos and not burst.partitions:
        raise value.error("expected qos or partitions, found none: no job would be of the class")
    for key in ("qos", "partitions"):
        if len(",".join(getattr(burst, key))) > 255:
            raise found[key].error("expected names of together at most 255 characters, found more")
    return burst


def _card(name: str, value: Value, defaults: _Defaults) -> Card:
    found = value.fields(["memory", "sms"], ["reserve"])
    memory = values.size(found["memory"], least=1)
    reserve = values.size(found["reserve"]) if "reserve" in found else defaults.reserve
    if reserve >= memory:
        place = found.get("reserve", value)
        raise place.error(
            f"expected a reserve below the memory of {sizes.format_size(memory)}, "
            f"found {sizes.format_size(reserve)}"
        )
    return Card(name, memory, reserve, found["sms"].integer(1, MAX_SMS))


def _type(name: str, value: Value, defaults: _Defaults) -> VgpuType:
    found = value.fields(["memory", "sms"], ["max_sms", "slice", "policy"])
    sms = found["sms"].integer(1, MAX_SMS)
    return VgpuType(
        name=name,
        memory=values.size(found["memory"], least=1),
        sms=sms,
        max_sms=found["max_sms"].integer(sms, MAX_SMS) if "max_sms" in found else sms,
        slice_ms=values.slice_ms(found["slice"]) if "slice" in found else defaults.slice_ms,
        policy=values.policy(found["policy"]) if "policy" in found else defaults.policy,
    )


@dataclass
class _NodeReader:
    """Reads the node sets one after the other and refuses what contradicts an earlier one."""

    cards: Mapping[str, Card]
    types: Mapping[str, VgpuType]
    defaults: _Defaults
    seen: dict[str, Value] = field(default_factory=dict)

    def read(self, value: Value) -> NodeSet:
        found = value.fields(["names", "gpus"], ["features", "nvlink", "slurm"])
        gpus = self._gpus(found["gpus"])
        minors = sorted(minor for entry in gpus for minor in entry.minors)
        features, slurm = self.defaults.features, self.defaults.slurm
        node_set = NodeSet(
            names=self._names(found["names"]),
            gpus=gpus,
            features=values.features(found["features"]) if "features" in found else features,
            nvlink=values.nvlink(found["nvlink"], minors) if "nvlink" in found else Nvlink(),
            slurm=values.parameters(found["slurm"]) if "slurm" in found else slurm,
        )
        _check_node(node_set, found)
        return node_set

    def _names(self, value: Value) -> tuple[str, ...]:
        names: list[str] = []
        for item in value.one_or_more("a host list such as n[001-004]"):
            for name in item.parsed(hosts.expand, "a host list such as n[001-004]"):
                if name in self.seen:
                    first = self.seen[name]
                    raise item.error(
                        f"expected every node once, found {name} again "
                        f"(first in {first.path} on line {first.line})"
                    )
                self.seen[name] = item
                names.append(name)
        if not names:
            raise value.error("expected at least one node, found an empty list")
        return tuple(names)

    def _gpus(self, value: Value) -> tuple[Gpus, ...]:
        entries: list[Gpus] = []
        owner: dict[int, Value] = {}
        for item in value.items("a list of GPUs"):
            entry = self._entry(item)
            for minor in entry.minors:
                if minor in owner:
                    raise item.error(
                        f"expected every GPU once, found GPU {minor} again "
                        f"(first on line {owner[minor].line})"
                    )
                owner[minor] = item
            entries.append(entry)
        if not entries:
            raise value.error("expected at least one GPU, found an empty list")
        return tuple(entries)

    def _entry(self, value: Value) -> Gpus:
        uses = ("vgpus", "whole", "shards", "mig")
        found = value.fields(["gpu"], ["card", "cores", "uuid", *uses])
        used = [use for use in uses if use in found]
        if len(used) != 1:
            raise value.error(
                f"expected exactly one of {', '.join(uses)}, found {' and '.join(used) or 'none'}"
            )
        minors = values.indices(found["gpu"], MAX_GPU, "GPU minor numbers such as 0 or 0-3")
        card = self._card_of(value, found.get("card"))
        entry = Gpus(
            minors=minors,
            card=card,
            cores=values.indices(found["cores"], 65535, "cores such as 0-15")
            if "cores" in found
            else (),
            uuid=values.uuid(found["uuid"], minors) if "uuid" in found else "",
            vgpus=self._vgpus(found["vgpus"], card) if "vgpus" in found else (),
            whole="whole" in found,
            shards=found["shards"].integer(1, 1024) if "shards" in found else 0,
            mig=values.mig(found["mig"]) if "mig" in found else (),
        )
        if entry.whole and not found["whole"].boolean():
            raise found["whole"].error("expected true, or no entry for this GPU, found false")
        return entry

    def _card_of(self, value: Value, own: Value | None) -> Card:
        name = own.text("the name of a card") if own else self.defaults.card
        if not name:
            raise value.error("expected the key card (or defaults.card), found none")
        return _known_card(own or value, name, self.cards)

    def _vgpus(self, value: Value, card: Card) -> tuple[tuple[VgpuType, int], ...]:
        counts: list[tuple[VgpuType, int]] = []
        for name, count in value.mapping("a mapping of type to count").items():
            if name not in self.types:
                known = ", ".join(sorted(self.types, key=hosts.natural_key))
                raise count.error(f"expected one of the types {known}, found {name}")
            vgpu_type = self.types[name]
            if vgpu_type.max_sms > card.sms:
                raise count.error(
                    f"expected max_sms of at most the {card.sms} SMs of {card.name}, "
                    f"found {vgpu_type.max_sms}"
                )
            counts.append((vgpu_type, count.integer(1, MAX_SLOTS)))
        if not counts:
            raise value.error("expected at least one type, found an empty mapping")
        _check_room(value, card, counts)
        return tuple(sorted(counts, key=lambda pair: hosts.natural_key(pair[0].name)))


# --- checks that need more than one value -------------------------------------------------------


def _check_room(value: Value, card: Card, counts: list[tuple[VgpuType, int]]) -> None:
    """A guarantee is a promise: what is promised on a card adds up to at most the card."""
    sms = sum(vgpu_type.sms * count for vgpu_type, count in counts)
    if sms > card.sms:
        parts = " + ".join(f"{count} x {t.sms} ({t.name})" for t, count in counts)
        raise value.error(
            f"expected guarantees of at most the {card.sms} SMs of {card.name}, "
            f"found {sms} = {parts}"
        )
    memory = sum(vgpu_type.memory * count for vgpu_type, count in counts)
    room = card.memory - card.reserve
    if memory > room:
        size = sizes.format_size
        parts = " + ".join(f"{count} x {size(t.memory)} ({t.name})" for t, count in counts)
        reserved = f" less the reserve of {size(card.reserve)}" if card.reserve else ""
        raise value.error(
            f"expected memory of at most the {size(card.memory)} of {card.name}{reserved}, "
            f"found {size(memory)} = {parts}"
        )


def _check_node(node_set: NodeSet, found: Mapping[str, Value]) -> None:
    slots = sum(len(g.minors) * count for g in node_set.gpus for _, count in g.vgpus)
    if slots > MAX_SLOTS:
        raise found["gpus"].error(f"expected at most {MAX_SLOTS} vGPUs on a node, found {slots}")
    vgpu_gpus = sum(len(g.minors) for g in node_set.gpus if g.vgpus)
    if vgpu_gpus > MAX_VGPU_GPUS:
        raise found["gpus"].error(
            f"expected vGPUs on at most {MAX_VGPU_GPUS} GPUs of a node, found {vgpu_gpus}"
        )
    if any(g.shards for g in node_set.gpus) and any(g.mig for g in node_set.gpus):
        raise found["gpus"].error(
            "expected shards or mig, since Slurm miscounts shards beside MIG instances, found both"
        )
    if any(g.uuid for g in node_set.gpus) and len(node_set.names) > 1:
        raise found["names"].error(
            f"expected one node, since a GPU has a uuid, found {len(node_set.names)}"
        )
    _check_cores(node_set, found["gpus"])


def _check_cores(node_set: NodeSet, value: Value) -> None:
    parameters = {key.lower(): text for key, text in node_set.slurm}
    sockets = parameters.get("sockets") or parameters.get("socketsperboard") or ""
    per_socket = parameters.get("corespersocket", "")
    if not (sockets.isdecimal() and per_socket.isdecimal()):
        return
    boards = int(parameters["boards"]) if parameters.get("boards", "").isdecimal() else 1
    cores = int(sockets) * int(per_socket) * (boards if "socketsperboard" in parameters else 1)
    for item, entry in zip(value.items(), node_set.gpus, strict=True):
        if entry.cores and entry.cores[-1] >= cores:
            raise item.fields(["cores"], item.mapping())["cores"].error(
                f"expected cores from 0 to {cores - 1} (sockets x cores of slurm:), "
                f"found {entry.cores[-1]}"
            )


def _known_card(value: Value, name: str, cards: Mapping[str, Card]) -> Card:
    if name not in cards:
        known = ", ".join(sorted(cards, key=hosts.natural_key))
        raise value.error(f'expected one of the cards {known}, found "{name}"')
    return cards[name]
