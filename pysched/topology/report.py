"""The line in which a node tells the controller its topology: versioned, compact, readable.

    1;gpu=A100-PCIE-40GB*4;minor=0,1,2,3;nvlink=20*4;pcie=24*4;numa=0*2,1*2;cpus=0-27+56-83*2,28-55*2;
    links=NV12/SYS,SYS*4,NV12/SYS;socket=12;switch=0;crc=0d3a9f14

(on one line). A list repeats an item with ``*``; ``-`` is what is not known. ``links`` is the
upper triangle by rows, ``NV12/SYS`` a bond of NVLinks beside the way over PCIe. With network
adapters there are ``nic.NAME=`` (the way to each GPU) and ``nics=`` (between adapters). The sum
at the end is the CRC-32 of what stands before it: nothing in the line is stated twice, so only
that shows damage. The agent keeps this line in the node's Extra.
"""

import re
import zlib
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import TypeVar

from pysched.topology.model import (
    MOST_GPUS,
    MOST_LINKS,
    Gpu,
    Link,
    Nic,
    Path,
    Ranges,
    Topology,
    TopologyError,
)
from pysched.topology.rates import Rates
from pysched.topology.text import parse_ranges, ranges_text

VERSION = "1"
NONE = "-"
MOST_ITEMS = 4096
KEYS = ("gpu", "minor", "nvlink", "pcie", "numa", "cpus", "links", "socket", "switch")

_FIELD = re.compile(r"[^;]+")
_REPEAT = re.compile(r"(.*?)(?:\*([1-9][0-9]{0,2}))?")
_NAME = re.compile(r"[A-Za-z0-9_.()/-]{1,64}")
_NIC = re.compile(r"nic\.([A-Za-z][\w.:-]{0,63})")
_NUMBER = re.compile(r"[0-9]{1,4}")
_RATE = re.compile(r"[0-9]{1,5}(?:\.[0-9]{1,12})?")
_LINK = re.compile(r"(?:NV([1-9][0-9]?))?(/)?([A-Z]+)?")

Item = TypeVar("Item")


def write(topology: Topology) -> str:
    """The report of a topology; read() gives back an equal one."""
    gpus = topology.gpus
    fields = {
        "gpu": _list(gpu.name or NONE for gpu in gpus),
        "minor": _list(NONE if gpu.minor is None else str(gpu.minor) for gpu in gpus),
        "nvlink": _list(_rate_text(gpu.rates.nvlink) for gpu in gpus),
        "pcie": _list(_rate_text(gpu.rates.pcie) for gpu in gpus),
        "numa": _list(_ranges_item(gpu.numa) for gpu in gpus),
        "cpus": _list(_ranges_item(gpu.cpus) for gpu in gpus),
        "links": _list(map(_link_text, topology.links)),
        "socket": _rate_text(topology.socket),
        "switch": str(int(topology.switch)),
    }
    fields |= {f"nic.{nic.name}": _list(path.name for path in nic.paths) for nic in topology.nics}
    if topology.nic_links:
        fields["nics"] = _list(path.name for path in topology.nic_links)
    text = ";".join((VERSION, *(f"{key}={value}" for key, value in fields.items())))
    return f"{text};crc={checksum(text)}"


def read(text: str, source: str = "report") -> Topology:
    """Read a report. Raises TopologyError; ``source`` stands for the text in it."""
    return _Reader(text, source).topology()


def checksum(text: str) -> str:
    """What stands behind crc= for the text before it."""
    return f"{zlib.crc32(text.encode()):08x}"


def _list(items: Iterable[str]) -> str:
    runs = ((item, len(list(run))) for item, run in groupby(items))
    return ",".join(item if count == 1 else f"{item}*{count}" for item, count in runs)


def _rate_text(rate: float) -> str:
    return repr(rate).removesuffix(".0")


def _ranges_item(ranges: Ranges) -> str:
    return ranges_text(ranges).replace(",", "+") or NONE


def _link_text(link: Link) -> str:
    path = link.path.name if link.path is not None else ""
    return f"NV{link.nvlinks}/{path}".rstrip("/") if link.nvlinks else path


class _Reader:
    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.fields: dict[str, str] = {}
        self.columns: dict[str, int] = {}
        self.end = len(text) + 1
        text, _, crc = text.rpartition(";crc=")
        fields = list(_FIELD.finditer(text))
        if not fields or fields[0][0] != VERSION:
            message = f"expected {VERSION}; at the start and ;crc= at the end"
            raise TopologyError(source, 1, 1, message)
        if crc != checksum(text):
            message = "the text is not what was written: the sum at its end does not match"
            raise TopologyError(source, 1, len(text) + 1, message)
        for field in fields[1:]:
            key, equals, value = field[0].partition("=")
            if not equals or key in self.fields or not self.known(key):
                message = f'"{key}" is not a key that may stand here'
                raise TopologyError(source, 1, field.start() + 1, message)
            self.fields[key] = value
            self.columns[key] = field.start() + len(key) + 2

    @staticmethod
    def known(key: str) -> bool:
        return key in KEYS or key == "nics" or _NIC.fullmatch(key) is not None

    def error(self, key: str, message: str) -> TopologyError:
        return TopologyError(self.source, 1, self.columns.get(key, self.end), message)

    def topology(self) -> Topology:
        gpus = self.gpus()
        count = len(gpus)
        links = self.items("links", _link, count * (count - 1) // 2)
        nics = [key.removeprefix("nic.") for key in self.fields if key.startswith("nic.")]
        paths = tuple(Nic(nic, self.items(f"nic.{nic}", _path, count)) for nic in nics)
        between = len(nics) * (len(nics) - 1) // 2
        nic_links = self.items("nics", _path, between) if "nics" in self.fields else ()
        (socket,), (switch,) = self.items("socket", _rate, 1), self.items("switch", _flag, 1)
        return Topology(gpus, links, paths, nic_links, socket, switch)

    def gpus(self) -> tuple[Gpu, ...]:
        names = self.items("gpu", _name)
        count = len(names)
        if count > MOST_GPUS:
            raise self.error("gpu", f"{count} GPUs are more than {MOST_GPUS}")
        columns = zip(
            self.items("nvlink", _rate, count),
            self.items("pcie", _rate, count),
            self.items("minor", _number, count),
            names,
            self.items("numa", _ranges, count),
            self.items("cpus", _ranges, count),
            strict=True,
        )
        return tuple(
            Gpu(Rates(nvlink, pcie), minor, name, numa, cpus)
            for nvlink, pcie, minor, name, numa, cpus in columns
        )

    def items(
        self, key: str, parse: Callable[[str], Item], count: int | None = None
    ) -> tuple[Item, ...]:
        """The list of a field, which must have this many items."""
        if key not in self.fields:
            raise self.error(key, f"{key}= is missing")
        found: list[Item] = []
        for part in self.fields[key].split(",") if self.fields[key] or count != 0 else []:
            repeat = _REPEAT.fullmatch(part)
            assert repeat is not None
            try:
                found += [parse(repeat[1])] * int(repeat[2] or 1)
                if len(found) > MOST_ITEMS:
                    raise ValueError(f"more than {MOST_ITEMS} items")
            except ValueError as error:
                raise self.error(key, f"{key}= has {error}") from None
        if count is not None and len(found) != count:
            raise self.error(key, f"{key}= has {len(found)} items where {count} belong")
        return tuple(found)


def _matched(pattern: re.Pattern[str], text: str, what: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(f'"{text}" where {what} belongs')
    return match


def _name(text: str) -> str:
    return "" if text == NONE else _matched(_NAME, text, "the name of a card")[0]


def _number(text: str) -> int | None:
    return None if text == NONE else int(_matched(_NUMBER, text, "a number")[0])


def _rate(text: str) -> float:
    return float(_matched(_RATE, text, "a rate in GB/s")[0])


def _flag(text: str) -> bool:
    return _matched(re.compile("[01]"), text, "0 or 1")[0] == "1"


def _ranges(text: str) -> Ranges:
    return () if text == NONE else parse_ranges(text.replace("+", ","))


def _path(text: str) -> Path:
    if text not in Path.__members__:
        raise ValueError(f'"{text}" where one of {", ".join(Path.__members__)} belongs')
    return Path[text]


def _link(text: str) -> Link:
    match = _matched(_LINK, text, "a link such as NV2, NV2/SYS or PIX")
    nvlinks = int(match[1] or 0)
    beside = nvlinks > 0 and match[3] is not None
    if beside != (match[2] is not None) or not text or nvlinks > MOST_LINKS:
        raise ValueError(f'"{text}" where a link such as NV2, NV2/SYS or PIX belongs')
    return Link(nvlinks, _path(match[3]) if match[3] else None)
