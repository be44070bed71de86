"""A first plan from what the hardware is, with the reasons as comments."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import jinja2

from gres.lines import ranges
from gres.plan import Nvlink
from gres.sources import cards
from gres.sources.machine import Cpus, Gpu, Machine
from pysched import hosts, sizes

_TEMPLATES = Path(__file__).with_name("templates")
_MIB, _GIB = 1 << 20, 1 << 30


@dataclass(frozen=True)
class FoundCard:
    name: str
    product: str
    memory: int
    reserve: int
    sms: int | None
    memory_why: str


@dataclass(frozen=True)
class FirstType:
    name: str
    card: FoundCard
    memory: int
    sms: int
    max_sms: int


@dataclass(frozen=True)
class _Entry:
    """GPUs that are used alike: one line of gpus."""

    minors: tuple[int, ...]
    card: FoundCard
    cores: tuple[int, ...]
    mig: tuple[tuple[str, tuple[int, ...]], ...]
    in_mig_mode: bool
    affinity: str


@dataclass(frozen=True)
class _Shape:
    """What nodes have in common that make one node set."""

    entries: tuple[_Entry, ...]
    nvlink: Nvlink
    slurm: tuple[tuple[str, str], ...]


def write(machines: list[Machine], split: int) -> str:
    """The text of plan.yaml. Every card is cut into ``split`` equal vGPUs."""
    found = _cards(machines)
    types = {card: _type(card, split) for card in found.values()}
    shapes: dict[_Shape, list[str]] = {}
    for machine in machines:
        shapes.setdefault(_shape(machine, found), []).append(machine.node)
    used = {e.card for shape in shapes for e in shape.entries if not e.in_mig_mode}
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(_TEMPLATES)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["size"] = sizes.format_size
    return environment.get_template("plan.yaml.j2").render(
        source=", ".join(sorted({machine.source for machine in machines})),
        split=split,
        cards=sorted(found.values(), key=lambda card: hosts.natural_key(card.name)),
        types=[types[c] for c in sorted(used, key=lambda card: hosts.natural_key(card.name))],
        sets=[_set(shape, names, types, split) for shape, names in _in_order(shapes)],
    )


def _in_order(shapes: dict[_Shape, list[str]]) -> list[tuple[_Shape, list[str]]]:
    pairs = [(shape, sorted(names, key=hosts.natural_key)) for shape, names in shapes.items()]
    return sorted(pairs, key=lambda pair: hosts.natural_key(pair[1][0]))


def _cards(machines: Iterable[Machine]) -> dict[tuple[str, int], FoundCard]:
    """(product, memory) -> card. Names are made unique by memory where products are equal."""
    gpus: dict[tuple[str, int], Gpu] = {}
    for gpu in (gpu for machine in machines for gpu in machine.gpus):
        known = gpus.setdefault((gpu.product, gpu.memory), gpu)
        if (gpu.reserved or 0) > (known.reserved or 0):
            gpus[gpu.product, gpu.memory] = gpu
    names: dict[str, int] = {}
    found: dict[tuple[str, int], FoundCard] = {}
    for key in sorted(gpus):
        name = cards.plan_name(key[0])
        names[name] = names.get(name, 0) + 1
        if names[name] > 1:
            name = f"{name[:58]}-{names[name]}"
        found[key] = _card(name, gpus[key])
    return found


def _card(name: str, gpu: Gpu) -> FoundCard:
    memory = gpu.memory // _MIB * _MIB
    if gpu.reserved is None:
        reserve, why = 0, "how much memory the driver keeps for itself is not known here"
    else:
        reserve = math.ceil(gpu.reserved / _MIB) * _MIB
        why = "reserve is what the driver keeps for itself"
    return FoundCard(name, gpu.product, memory, reserve, gpu.sms, why)


def _type(card: FoundCard, split: int) -> FirstType:
    part = (card.memory - card.reserve) // split
    memory = part // _GIB * _GIB or part // _MIB * _MIB
    sms = card.sms or split
    short = sizes.format_size(memory).removesuffix("iB").lower()
    return FirstType(f"{card.name[:55]}-{short}", card, memory, max(1, sms // split), sms)


def _shape(machine: Machine, found: dict[tuple[str, int], FoundCard]) -> _Shape:
    entries: dict[_Entry, list[int]] = {}
    for gpu in sorted(machine.gpus, key=lambda gpu: gpu.minor):
        card = found[gpu.product, gpu.memory]
        mig: dict[str, tuple[int, ...]] = {}
        for profile, instance in gpu.instances:
            mig[profile] = (*mig.get(profile, ()), instance)
        cores = _cores(machine.cpus, gpu)
        entry = _Entry((), card, cores, tuple(mig.items()), gpu.mig, _affinity(gpu, cores))
        entries.setdefault(entry, []).append(gpu.minor)
    slurm = dict(machine.slurm)
    if slurm.get("RealMemory", "").isdecimal():
        # Equal nodes report slightly different sizes; a node that has less than stated is refused.
        slurm["RealMemory"] = str(int(slurm["RealMemory"]) // 1000 * 1000 or 1)
    return _Shape(
        tuple(replace(entry, minors=tuple(minors)) for entry, minors in entries.items()),
        machine.nvlink,
        tuple(slurm.items()),
    )


def _cores(numbering: Cpus | None, gpu: Gpu) -> tuple[int, ...]:
    return (numbering.cores(gpu.cpus) if numbering else None) or ()


def _affinity(gpu: Gpu, cores: tuple[int, ...]) -> str:
    if not gpu.cpus:
        return ""
    cpus = ranges(sorted(gpu.cpus))
    if cores:
        return f"near the CPUs {cpus} of Linux, which are these cores in Slurm's numbering"
    return f"near the CPUs {cpus} of Linux; which cores of Slurm these are is not known here"


def _set(
    shape: _Shape, names: list[str], types: dict[FoundCard, FirstType], split: int
) -> dict[str, object]:
    return {
        "hosts": _quoted(hosts.collect(names)),
        "slurm": shape.slurm,
        "nvlink": _nvlink(shape.nvlink),
        "gpus": [_line(entry, types, split) for entry in shape.entries],
    }


def _line(entry: _Entry, types: dict[FoundCard, FirstType], split: int) -> dict[str, str]:
    cores = f", cores: {ranges(entry.cores)}" if entry.cores else ""
    start = f"gpu: {ranges(entry.minors)}, card: {entry.card.name}{cores}"
    if not entry.in_mig_mode:
        use, why = f"vgpus: {{{types[entry.card].name}: {split}}}", entry.affinity
    elif entry.mig:
        parts = [f"{profile}: [{', '.join(map(str, ids))}]" for profile, ids in entry.mig]
        use, why = f"mig: {{{', '.join(parts)}}}", "in MIG mode: Slurm's own, beside vGPUs"
    else:
        use, why = "mig: {}", "in MIG mode: write its instances here, e.g. {1g.5gb: [7, 8]}"
    return {"entry": f"{{{start}, {use}}}", "why": why}


def _nvlink(nvlink: Nvlink) -> str:
    if nvlink.switch:
        return "switch"
    pairs = ", ".join(f"{a}-{b}: {count}" for a, b, count in nvlink.pairs)
    return f"{{{pairs}}}" if pairs else "none"


def _quoted(text: str) -> str:
    """As a YAML scalar: a list that begins with a bracket-free name needs no quotes."""
    return f'"{text}"' if not text[0].isalpha() else text
