"""Tables for people: columns as wide as their cells, numbers to the right."""

from collections.abc import Sequence


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> str:
    """The lines of a table; the columns named in ``right`` are aligned to the right.

    >>> print(table(["GPU", "USED"], [["0", "4 GiB"], ["1", "0"]], right=["USED"]))
    GPU   USED
    0    4 GiB
    1        0
    """
    lines = [list(headings), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    justify = [str.rjust if heading in right else str.ljust for heading in headings]
    return "\n".join(
        "  ".join(
            align(cell, width) for align, cell, width in zip(justify, line, widths, strict=True)
        ).rstrip()
        for line in lines
    )
