"""The node sets of a plan: what is read of them, and what must hold among their values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gres import values
from gres.document import Value
from gres.plan import (
    MAX_GPU,
    MAX_SLOTS,
    MAX_VGPU_GPUS,
    Card,
    Gpus,
    NodeSet,
    Nvlink,
    VgpuType,
)
from pysched import hosts, sizes


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where a card, a type, a node set or a GPU says nothing."""

    reserve: int = 0
    slice_ms: int = 10
    policy: str = "share"
    card: str = ""
    features: tuple[str, ...] = ()
    slurm: tuple[tuple[str, str], ...] = ()


@dataclass
class NodeReader:
    """Reads the node sets one after the other and refuses what contradicts an earlier one."""

    cards: Mapping[str, Card]
    types: Mapping[str, VgpuType]
    defaults: Defaults
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
        return known_card(own or value, name, self.cards)

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


def known_card(value: Value, name: str, cards: Mapping[str, Card]) -> Card:
    if name not in cards:
        known = ", ".join(sorted(cards, key=hosts.natural_key))
        raise value.error(f'expected one of the cards {known}, found "{name}"')
    return cards[name]
