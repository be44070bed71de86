"""What the SPANK plugin asks, and what it is answered: one line of JSON each way.

    {"job":42,"step":0,"slots":[0,12],"n":2,"cores":"0-7","comm":"ring","affinity":"none"}
    {"gpus":[2,3],"why":"..."}

comm is a pattern, a matrix or null; gpus are minor numbers in the order of the ranks, empty for no
advice.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pysched.placement import Affinity, patterns
from pysched.topology.model import numbers
from pysched.topology.text import parse_ranges

MOST_SLOTS = 1024
LONGEST_WHY = 190
"""What the SPANK plugin keeps of a reason."""


@dataclass(frozen=True)
class Question:
    """``demand`` is None where the step did not say how its ranks talk."""

    job: int
    slots: tuple[int, ...]
    cores: frozenset[int]
    pattern: str
    demand: patterns.Matrix
    affinity: Affinity


def parse(line: str | bytes) -> Question:
    """Read a question strictly; ValueError with one sentence otherwise."""
    try:
        asked = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("the question is not JSON") from None
    if not isinstance(asked, dict):
        raise ValueError("the question is not a JSON object")
    slots = _slots(asked)
    pattern, demand = _demand(asked.get("comm"), len(slots))
    try:
        affinity = Affinity(asked.get("affinity") or Affinity.NONE)
    except ValueError:
        raise ValueError(
            f'"affinity" is one of {", ".join(each.value for each in Affinity)}'
        ) from None
    return Question(
        _number(asked, "job"), slots, _cores(asked.get("cores")), pattern, demand, affinity
    )


def answer(gpus: list[int], why: str) -> bytes:
    """The line that goes back."""
    text = why.replace("\n", " ")
    if len(text) > LONGEST_WHY:
        text = text[: LONGEST_WHY - 3] + "..."
    return json.dumps({"gpus": gpus, "why": text}).encode() + b"\n"


def _number(asked: Mapping[str, Any], key: str) -> int:
    value = asked.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 32:
        raise ValueError(f'"{key}" is a whole number')
    return value


def _slots(asked: Mapping[str, Any]) -> tuple[int, ...]:
    slots = asked.get("slots")
    if not isinstance(slots, list) or not slots or len(slots) > MOST_SLOTS:
        raise ValueError('"slots" is a list of slot indices')
    found = tuple(_number({"slots": slot}, "slots") for slot in slots)
    if len(set(found)) != len(found):
        raise ValueError('"slots" names a slot twice')
    if "n" in asked and _number(asked, "n") != len(found):
        raise ValueError('"n" is the number of slots')
    return found


def _cores(text: object) -> frozenset[int]:
    if text in (None, ""):
        return frozenset()
    if not isinstance(text, str):
        raise ValueError('"cores" is a text such as 0-7')
    return numbers(parse_ranges(text))


def _demand(comm: object, ranks: int) -> tuple[str, patterns.Matrix]:
    """The name and the demand of how the ranks talk."""
    try:
        if comm is None or isinstance(comm, str):
            name = comm or patterns.DEFAULT
            return name, patterns.matrix(name, ranks)
        if not isinstance(comm, list) or not all(isinstance(row, list) for row in comm):
            raise ValueError('"comm" is a pattern, a matrix or null')
        rows = "/".join(",".join(map(str, row)) for row in comm)
        return "its matrix", patterns.matrix(patterns.INLINE + rows, ranks)
    except patterns.PatternError as error:
        raise ValueError(str(error)) from None
