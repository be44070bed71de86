"""vgpu.conf read as the C parts read it. docs/vgpu.conf.md describes the format.

``vgpu config generate`` writes the file through a template (gres/templates/vgpu.conf.j2).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pysched import hosts, sizes

VERSION = 1
MAX_LINE = 4095
MAX_SLOTS = 1024
MAX_TYPES = 64
MAX_PRESETS = 32
MAX_GPUS = 32
MAX_MINOR = 1023
MAX_SMS = 65535

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,63}")
_UUID = re.compile(r"GPU-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_RANGE = re.compile(r"([0-9]{1,4})ms-([0-9]{1,4})ms")
_SLOTS = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class VgpuConfError(Exception):
    """One sentence: file, line, what is wrong and what would be right."""


@dataclass(frozen=True, slots=True)
class Type:
    name: str
    memory: int
    sms: int
    max_sms: int
    slice_ms: int
    policy: str


@dataclass(frozen=True, slots=True)
class Burst:
    """Jobs of these QOSes or partitions may run ahead of their share when they wake up."""

    time_ms: int
    qos: tuple[str, ...]
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gpu:
    minor: int
    memory: int
    reserve: int
    sms: int
    uuid: str


@dataclass(frozen=True, slots=True)
class Slot:
    index: int
    type: Type
    gpu: Gpu  # its home


@dataclass(frozen=True, slots=True)
class Node:
    """One node's part of the file; empty for a node that the file does not mention."""

    name: str
    gpus: tuple[Gpu, ...]
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class _GpuLine:
    number: int
    nodes: frozenset[str]
    gpu: Gpu


@dataclass(frozen=True, slots=True)
class _SlotLine:
    number: int
    nodes: frozenset[str]
    first: int
    last: int
    type: Type
    homes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VgpuConf:
    file: str
    backstop: str
    tolerance: int
    tolerance_ms: int
    slices: tuple[int, int]  # ms: what users may ask for
    workloads: Mapping[str, int]  # name -> slice in ms
    bursts: Mapping[str, Burst]
    types: Mapping[str, Type]
    gpu_lines: tuple[_GpuLine, ...]
    slot_lines: tuple[_SlotLine, ...]

    def settings(self) -> dict[str, object]:
        """What holds on every node, in the words of the file."""
        return {
            "Backstop": (self.backstop, self.tolerance, self.tolerance_ms),
            "Slices": self.slices,
            "Workload": self.workloads,
            "Burst": self.bursts,
        }

    def names(self) -> list[str]:
        """The nodes that the file mentions, in natural order."""
        names = {name for line in self.gpu_lines for name in line.nodes}
        names |= {name for line in self.slot_lines for name in line.nodes}
        return sorted(names, key=hosts.natural_key)

    def lines_of(self, name: str) -> tuple[int, ...]:
        """The numbers of the lines that speak of the node."""
        gpus = tuple(line.number for line in self.gpu_lines if name in line.nodes)
        return gpus + tuple(line.number for line in self.slot_lines if name in line.nodes)

    def node(self, name: str) -> Node:
        """The node's part, checked as vgpud checks it."""
        gpus: dict[int, Gpu] = {}
        for line in self.gpu_lines:
            if name in line.nodes:
                if line.gpu.minor in gpus:
                    raise self._error(
                        line.number, f"GPU={line.gpu.minor} of node {name} is there already"
                    )
                gpus[line.gpu.minor] = line.gpu
        if len(gpus) > MAX_GPUS:
            raise VgpuConfError(f"{self.file}: node {name} has more than {MAX_GPUS} GPUs")
        node = Node(name, tuple(gpus.values()), self._slots(name, gpus))
        _check_room(self.file, node)
        return node

    def _slots(self, name: str, gpus: Mapping[int, Gpu]) -> tuple[Slot, ...]:
        slots: dict[int, Slot] = {}
        for line in self.slot_lines:
            if name not in line.nodes:
                continue
            for index in range(line.first, line.last + 1):
                home = line.homes[(index - line.first) % len(line.homes)]
                if home not in gpus:
                    raise self._error(line.number, f"GPU={home} of node {name} has no line")
                if index in slots:
                    raise self._error(line.number, f"Slot={index} of node {name} is there already")
                slots[index] = Slot(index, line.type, gpus[home])
        for index in range(len(slots)):
            if index not in slots:
                raise VgpuConfError(
                    f"{self.file}: node {name} has no slot {index} but a later one; "
                    "slots have no gaps"
                )
        return tuple(slots[index] for index in sorted(slots))

    def _error(self, line: int, message: str) -> VgpuConfError:
        return VgpuConfError(f"{self.file}:{line}: {message}")


def read(path: Path) -> VgpuConf:
    """The file; VgpuConfError with one sentence for anything that is not right."""
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise VgpuConfError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise VgpuConfError(f"{path}: is not UTF-8 text") from None


def parse(text: str, name: str = "vgpu.conf") -> VgpuConf:
    """The same from memory; ``name`` stands for the file in errors."""
    reader = _Reader()
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        try:
            reader.line(number, line)
        except ValueError as error:
            raise VgpuConfError(f"{name}:{number}: {error}") from None
    if not reader.has_version:
        raise VgpuConfError(f"{name}:{len(lines)}: the first line is Version={VERSION}")
    return VgpuConf(
        name,
        *(reader.backstop or ("end", 64 << 20, 1000)),
        reader.slices or (5, 1000),
        reader.workloads,
        reader.bursts,
        reader.types,
        tuple(reader.gpu_lines),
        tuple(reader.slot_lines),
    )


def _check_room(file: str, node: Node) -> None:
    for gpu in node.gpus:
        mine = [slot.type for slot in node.slots if slot.gpu is gpu]
        if sum(vgpu_type.sms for vgpu_type in mine) > gpu.sms:
            raise VgpuConfError(
                f"{file}: node {node.name}: the slots of GPU={gpu.minor} are guaranteed more "
                f"than its {gpu.sms} SMs"
            )
        if sum(vgpu_type.memory for vgpu_type in mine) > gpu.memory - gpu.reserve:
            raise VgpuConfError(
                f"{file}: node {node.name}: the slots of GPU={gpu.minor} have more memory than "
                "Memory= less Reserve="
            )


# --- lines ----------------------------------------------------------------------------------------


class _Reader:
    """Takes the lines one after the other; ValueError says what is wrong with one."""

    def __init__(self) -> None:
        self.has_version = False
        self.backstop: tuple[str, int, int] | None = None
        self.slices: tuple[int, int] | None = None
        self.workloads: dict[str, int] = {}
        self.bursts: dict[str, Burst] = {}
        self.types: dict[str, Type] = {}
        self.gpu_lines: list[_GpuLine] = []
        self.slot_lines: list[_SlotLine] = []

    def line(self, number: int, line: str) -> None:
        if len(line.encode()) > MAX_LINE:
            raise ValueError(f"longer than {MAX_LINE} bytes")
        if _CONTROL.search(line):
            raise ValueError("a control character; lines end with a newline alone")
        words = [_word(word) for word in line.partition("#")[0].split()]
        if not words:
            return
        keys = {key.lower() for key, _ in words}
        kind = words[0][0].lower()
        if kind == "node":
            kind = "slot" if "slot" in keys else "gpu"
        if kind not in _KINDS:
            raise ValueError(
                "a line begins with Version=, Backstop=, Slices=, Workload=, Burst=, Type= or "
                f"Node=, not {words[0][0]}="
            )
        if not self.has_version and kind != "version":
            raise ValueError(f"the first line is Version={VERSION}")
        add, required, optional = _KINDS[kind]
        add(self, number, _fields(words, required, optional))

    def add_version(self, _number: int, fields: Mapping[str, str]) -> None:
        if self.has_version:
            raise ValueError("Version= is stated twice; once is right")
        _integer("Version", fields["version"], VERSION, VERSION)
        self.has_version = True

    def add_backstop(self, _number: int, fields: Mapping[str, str]) -> None:
        if self.backstop:
            raise ValueError("Backstop= is stated twice; once is right")
        self.backstop = (
            _choice("Backstop", fields["backstop"], ["end", "warn", "off"]),
            sizes.parse_size(fields.get("tolerance", "64MiB")),
            _milliseconds("ToleranceTime", fields.get("tolerancetime", "1000ms"), 1, 3_600_000),
        )

    def add_slices(self, _number: int, fields: Mapping[str, str]) -> None:
        if self.slices:
            raise ValueError("Slices= is stated twice; once is right")
        match = _RANGE.fullmatch(fields["slices"])
        least, most = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 5 <= least <= most <= 1000:
            raise ValueError(f"Slices={fields['slices']}: a range within 5ms-1000ms is expected")
        self.slices = least, most

    def add_workload(self, _number: int, fields: Mapping[str, str]) -> None:
        name = _name("Workload", fields["workload"])
        if name in self.workloads:
            raise ValueError(f"Workload={name} is there already; a name is used once")
        if len(self.workloads) == MAX_PRESETS:
            raise ValueError(f"more than {MAX_PRESETS} workloads")
        self.workloads[name] = _milliseconds("Slice", fields["slice"], 5, 1000)

    def add_burst(self, _number: int, fields: Mapping[str, str]) -> None:
        name = _name("Burst", fields["burst"])
        if name in self.bursts:
            raise ValueError(f"Burst={name} is there already; a name is used once")
        if len(self.bursts) == MAX_PRESETS:
            raise ValueError(f"more than {MAX_PRESETS} burst classes")
        lists = [fields.get(key, "") for key in ("qos", "partition")]
        if not any(lists):
            raise ValueError("a Burst= line needs QOS= or Partition=")
        if max(map(len, lists)) > 255:
            raise ValueError("at most 255 characters are expected in QOS= and Partition=")
        qos, partitions = (tuple(text.split(",")) if text else () for text in lists)
        time_ms = _milliseconds("Time", fields["time"], 1, 10_000)
        self.bursts[name] = Burst(time_ms, qos, partitions)

    def add_type(self, _number: int, fields: Mapping[str, str]) -> None:
        name = _name("Type", fields["type"])
        if name in self.types:
            raise ValueError(f"Type={name} is there already; a name is used once")
        if len(self.types) == MAX_TYPES:
            raise ValueError(f"more than {MAX_TYPES} types")
        sms = _integer("SMs", fields["sms"], 1, MAX_SMS)
        self.types[name] = Type(
            name,
            _memory(fields["memory"]),
            sms,
            _integer("MaxSMs", fields.get("maxsms", fields["sms"]), sms, MAX_SMS),
            _milliseconds("Slice", fields.get("slice", "10ms"), 5, 1000),
            _choice("Policy", fields.get("policy", "share"), ["share", "cap"]),
        )

    def add_gpu(self, number: int, fields: Mapping[str, str]) -> None:
        memory = _memory(fields["memory"])
        reserve = sizes.parse_size(fields.get("reserve", "0K"))
        if reserve >= memory:
            raise ValueError("Reserve= leaves nothing of Memory=; less is expected")
        uuid = fields.get("uuid", "")
        if uuid and not _UUID.fullmatch(uuid):
            raise ValueError(f"UUID={uuid}: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx is expected")
        gpu = Gpu(
            _integer("GPU", fields["gpu"], 0, MAX_MINOR),
            memory,
            reserve,
            _integer("SMs", fields["sms"], 1, MAX_SMS),
            uuid[:4] + uuid[4:].lower(),
        )
        self.gpu_lines.append(_GpuLine(number, _nodes(fields["node"]), gpu))

    def add_slots(self, number: int, fields: Mapping[str, str]) -> None:
        name = _name("Type", fields["type"])
        if name not in self.types:
            raise ValueError(f"Type={name} is not known here; its Type= line comes before")
        first, last = _slot_range(fields["slot"])
        homes = [_integer("GPU", text, 0, MAX_MINOR) for text in fields["gpu"].split(",")]
        if len(homes) > MAX_GPUS:
            raise ValueError(f"GPU= names more than {MAX_GPUS} GPUs")
        nodes = _nodes(fields["node"])
        self.slot_lines.append(
            _SlotLine(number, nodes, first, last, self.types[name], tuple(homes))
        )


_KINDS: dict[
    str, tuple[Callable[[_Reader, int, Mapping[str, str]], None], list[str], list[str]]
] = {
    "version": (_Reader.add_version, ["Version"], []),
    "backstop": (_Reader.add_backstop, ["Backstop"], ["Tolerance", "ToleranceTime"]),
    "slices": (_Reader.add_slices, ["Slices"], []),
    "workload": (_Reader.add_workload, ["Workload", "Slice"], []),
    "burst": (_Reader.add_burst, ["Burst", "Time"], ["QOS", "Partition"]),
    "type": (_Reader.add_type, ["Type", "Memory", "SMs"], ["MaxSMs", "Slice", "Policy"]),
    "gpu": (_Reader.add_gpu, ["Node", "GPU", "Memory", "SMs"], ["Reserve", "UUID"]),
    "slot": (_Reader.add_slots, ["Node", "Slot", "Type", "GPU"], []),
}


def _word(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not (key and equals and value):
        raise ValueError(f'"{word[:60]}" is not Key=Value')
    return key, value


def _fields(
    words: list[tuple[str, str]], required: list[str], optional: list[str]
) -> dict[str, str]:
    """Lower-case key -> value, with exactly the keys that the line may have."""
    spelling = {key.lower(): key for key in [*required, *optional]}
    fields: dict[str, str] = {}
    for key, value in words:
        if key.lower() not in spelling:
            raise ValueError(
                f'key "{key}" does not belong here; the keys of this line are '
                f"{', '.join(spelling.values())}"
            )
        if key.lower() in fields:
            raise ValueError(f"key {spelling[key.lower()]} is there twice")
        fields[key.lower()] = value
    for key in required:
        if key.lower() not in fields:
            raise ValueError(f"{key}= is missing")
    return fields


def _integer(key: str, text: str, least: int, most: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise ValueError(f"{key}={text}: a whole number from {least} to {most} is expected")
    return int(text)


def _milliseconds(key: str, text: str, least: int, most: int) -> int:
    time = sizes.parse_milliseconds(text)
    if not least <= time <= most:
        raise ValueError(f"{key}={text}: {least}ms to {most}ms is expected")
    return time


def _choice(key: str, text: str, allowed: list[str]) -> str:
    if text not in allowed:
        raise ValueError(f"{key}={text}: one of {', '.join(allowed)} is expected")
    return text


def _memory(text: str) -> int:
    size = sizes.parse_size(text)
    if not size:
        raise ValueError(f"Memory={text}: more than nothing is expected")
    return size


def _name(key: str, text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"{key}={text}: 1 to 63 letters, digits or _ - . are expected")
    return text


def _slot_range(text: str) -> tuple[int, int]:
    match = _SLOTS.fullmatch(text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if first > last or last >= MAX_SLOTS:
        raise ValueError(f"Slot={text}: an index or a range from 0 to {MAX_SLOTS - 1} is expected")
    return first, last


@cache
def _nodes(text: str) -> frozenset[str]:
    return frozenset(hosts.expand(text))
