"""A node as Slurm has it, as far as placement is concerned."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pysched import segment
from pysched.topology.model import numbers
from pysched.topology.text import parse_ranges

GRES = "vgpu"
UNTYPED = ""

NOT_USABLE = frozenset(
    {
        *("DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "FUTURE", "INVAL"),
        *("INVALID_REG", "MAINT", "MAINTENANCE", "NOT_RESPONDING", "NO_RESPOND", "PLANNED"),
        *("POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "REBOOT_ISSUED", "RESERVED", "UNKNOWN"),
    }
)
"""States in which nothing starts on the node now."""

_GRES_ITEM = re.compile(r"[^,(]+(?:\([^)]*\))?")
_GRES = re.compile(r"([^:]+)(?::([^:]+))??(?::([0-9]+)([KMG]?))?(?:\((.*)\))?")
_INDEX = re.compile(r"IDX:([0-9,-]+)")
_UNIT = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class SlurmError(Exception):
    """One sentence: Slurm cannot be asked, or what it says cannot be read."""


@dataclass(frozen=True)
class NodeInfo:
    """``slots`` and ``used`` are the GRES vgpu by type; ``report`` is what the agent said."""

    name: str
    states: frozenset[str]
    partitions: tuple[str, ...]
    features: frozenset[str]
    slots: Mapping[str, int]
    used: Mapping[str, int]
    used_slots: frozenset[int]
    """Indices of slots in use, where Slurm says which."""
    cpus: int
    cpus_used: int
    memory: int
    memory_used: int
    """In MiB, as all memory of Slurm."""
    report: str | None

    @property
    def usable(self) -> bool:
        """Whether something can start there now, as far as its state says."""
        return not self.states & NOT_USABLE


@dataclass(frozen=True)
class GresCount:
    type: str
    count: int
    indices: frozenset[int]


def vgpus(text: str) -> list[GresCount]:
    """The GRES vgpu in a text such as ``gpu:2,vgpu:a100-4g:8(IDX:0,3-5)``.

    >>> vgpus("vgpu:a100-4g:2(IDX:0-1),gpu:4")[0].count
    2
    """
    found = []
    for item in _GRES_ITEM.findall(text):
        match = _GRES.fullmatch(item.strip())
        if match and match[1] == GRES:
            index = _INDEX.fullmatch(match[5] or "")
            taken = numbers(parse_ranges(index[1])) if index else frozenset[int]()
            count = int(match[3] or 1) * _UNIT[match[4] or ""]
            found.append(GresCount(match[2] or UNTYPED, count, taken))
    return found


def by_type(counts: Iterable[GresCount]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for each in counts:
        totals[each.type] = totals.get(each.type, 0) + each.count
    return totals


def states_of(text: str) -> frozenset[str]:
    """``IDLE+DRAIN*`` -> IDLE, DRAIN, NOT_RESPONDING: a mark at the end says more than the word."""
    marks = {"*": "NOT_RESPONDING", "$": "MAINT", "#": "POWERING_UP", "~": "POWERED_DOWN"}
    marks |= {"%": "POWERING_DOWN", "@": "REBOOT_ISSUED", "^": "REBOOT_ISSUED", "-": "PLANNED"}
    words = {word.rstrip("".join(marks)).upper() for word in text.split("+")}
    return frozenset(words | {marks[char] for char in text if char in marks})


def report_of(extra: str | None) -> str | None:
    """What the node's agent wrote into Extra."""
    return segment.read(extra or "")
