"""Numbers and ranges as text, as nvidia-smi, Linux and Slurm write them: 0-23,48-71."""

import re

from pysched.topology.model import Ranges

_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def parse_ranges(text: str) -> Ranges:
    """Read rising ranges; ValueError with one sentence otherwise.

    >>> parse_ranges("0-23,48")
    ((0, 23), (48, 48))
    """
    ranges: list[tuple[int, int]] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if low > high or (ranges and low <= ranges[-1][1]):
            raise ValueError(
                f'expected rising numbers and ranges such as 0-23,48-71, found "{text}"'
            )
        ranges.append((low, high))
    return tuple(ranges)


def ranges_text(ranges: Ranges) -> str:
    """The text that parse_ranges reads back; empty for no ranges."""
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
