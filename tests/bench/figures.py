"""A figure that was measured, beside its baseline and what is promised of it."""

import json
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Figure:
    """One number. ``baseline`` was measured in the same run; None: nothing to compare with."""

    name: str
    value: float
    unit: str
    baseline: float | None = None
    promise: str = ""  # in words, "" where nothing is promised
    holds: bool | None = None  # None where nothing is promised


def median_of(measure: Callable[[], float], runs: int) -> float:
    """The median of several runs: these machines are noisy."""
    return statistics.median(measure() for _ in range(runs))


def as_json(bench: str, figures: Sequence[Figure]) -> str:
    """All figures of a bench; says that the GPU was simulated."""
    head = {"bench": bench, "gpu": "simulated", "machine": platform.machine()}
    return json.dumps({**head, "figures": [asdict(figure) for figure in figures]}, indent=2)


def as_table(bench: str, figures: Sequence[Figure]) -> str:
    """The same for people."""
    verdict = {True: "holds", False: "DOES NOT HOLD", None: ""}
    rows = [("figure", "value", "baseline", "unit", "promise", "")]
    rows += [
        (
            f.name,
            f"{f.value:.6g}",
            "" if f.baseline is None else f"{f.baseline:.6g}",
            f.unit,
            f.promise,
            verdict[f.holds],
        )
        for f in figures
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([f"== {bench} (simulated GPU)", *lines])
