"""Who talks to whom: communication patterns as matrices of demand between ranks."""

import re
from collections.abc import Iterable

Matrix = tuple[tuple[int, ...], ...]
"""Symmetric, whole numbers, zero on the diagonal. Links are full duplex: the larger way counts."""

NAMES = ("none", "ring", "chain", "tree", "alltoall")
DEFAULT = "ring"
INLINE = "matrix:"
EXPECTED = f"{', '.join(NAMES)}, tpKxdpM or the name of a file with a matrix"

LARGEST = 1000
"""Demands are whole numbers up to this; a finer matrix is rounded to thousandths of its largest."""

TENSOR_WEIGHT = 8
"""What two ranks of a tensor group exchange where neighbours in a data ring exchange 1."""

MOST_RANKS = 32

_GROUPS = re.compile(r"tp([1-9][0-9]?)xdp([1-9][0-9]?)")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?")


class PatternError(Exception):
    """One sentence: which pattern, what is wrong, what would be right."""


def matrix(comm: str, ranks: int) -> Matrix:
    """The demand matrix of a pattern for this many ranks.

    >>> matrix("chain", 3)
    ((0, 1, 0), (1, 0, 1), (0, 1, 0))
    """
    groups = _GROUPS.fullmatch(comm)
    if groups:
        return _tensor_data(comm, int(groups[1]), int(groups[2]), ranks)
    if comm.startswith(INLINE):
        return _sized(read(comm.removeprefix(INLINE).replace("/", "\n"), "matrix"), ranks)
    if comm not in NAMES:
        raise PatternError(f'"{comm}" is no communication pattern: expected {EXPECTED}')
    pairs: dict[str, Iterable[tuple[int, int]]] = {
        "none": (),
        "ring": ((rank, (rank + 1) % ranks) for rank in range(ranks) if ranks > 1),
        "chain": ((rank, rank + 1) for rank in range(ranks - 1)),
        "tree": (((rank - 1) // 2, rank) for rank in range(1, ranks)),
        "alltoall": ((one, other) for one in range(ranks) for other in range(one)),
    }
    return _from_pairs(ranks, ((one, other, 1) for one, other in pairs[comm]))


def is_name(comm: str) -> bool:
    """Whether the text names a pattern; else it is the path of a matrix.

    >>> is_name("tp4xdp2"), is_name("tp4.txt")
    (True, False)
    """
    return comm in NAMES or _GROUPS.fullmatch(comm) is not None


def check(comm: str, ranks: int | None) -> None:
    """Raise PatternError if no step (of this many ranks, if that is known) can have the pattern."""
    groups = _GROUPS.fullmatch(comm)
    if ranks is None and groups:
        ranks = int(groups[1]) * int(groups[2])
    if ranks is None and comm.startswith(INLINE):
        ranks = len(read(comm.removeprefix(INLINE).replace("/", "\n"), "matrix"))
    matrix(comm, ranks or 1)


def read(text: str, source: str) -> Matrix:
    """Read a square matrix of numbers, one row a line. Raises PatternError with line and column."""
    rows: list[list[float]] = []
    for number, line in enumerate(text.splitlines(), 1):
        cells = list(re.finditer(r"[^\s,]+", line.partition("#")[0]))
        for cell in cells:
            if not _NUMBER.fullmatch(cell[0]):
                where = f"{source}:{number}:{cell.start() + 1}"
                raise PatternError(f'{where}: expected a number from 0 on, found "{cell[0][:40]}"')
        if cells:
            rows.append([float(cell[0]) for cell in cells])
        if rows and cells and len(cells) != len(rows[0]):
            where = f"{source}:{number}:1"
            raise PatternError(
                f"{where}: {len(cells)} numbers where the first row has {len(rows[0])}"
            )
    if not rows or len(rows) != len(rows[0]) or len(rows) > MOST_RANKS:
        width = len(rows[0]) if rows else 0
        raise PatternError(
            f"{source}:1:1: expected a square matrix of at most {MOST_RANKS} ranks, "
            f"found {len(rows)} rows of {width} numbers"
        )
    return _scaled(rows, source)


def write(demand: Matrix) -> str:
    """The inline form of a matrix, which matrix() reads."""
    return INLINE + "/".join(",".join(map(str, row)) for row in demand)


def _scaled(rows: list[list[float]], source: str) -> Matrix:
    size = len(rows)
    for rank in range(size):
        if rows[rank][rank]:
            raise PatternError(f"{source}: rank {rank} has a demand on itself; expected 0 there")
    larger = [[max(rows[i][j], rows[j][i]) for j in range(size)] for i in range(size)]
    most = max(map(max, larger))
    if not 0 <= most < float("inf"):
        raise PatternError(f"{source}: a number is too large")
    whole = all(value == int(value) for row in larger for value in row) and most <= LARGEST
    scale = 1.0 if whole or not most else LARGEST / most
    # What is asked for at all stays so: 0 would mean "never".
    return tuple(
        tuple(max(1, round(value * scale)) if value else 0 for value in row) for row in larger
    )


def _sized(demand: Matrix, ranks: int) -> Matrix:
    if len(demand) != ranks:
        raise PatternError(
            f"the matrix is for {len(demand)} ranks, the step has {ranks} vGPUs a node"
        )
    return demand


def _tensor_data(comm: str, tensor: int, data: int, ranks: int) -> Matrix:
    """Groups of ``tensor`` consecutive ranks that all talk; equal ranks of groups form rings."""
    if tensor * data != ranks:
        raise PatternError(f"{comm} needs {tensor * data} vGPUs a node, the step has {ranks}")
    first = [group * tensor for group in range(data)]
    within = [
        (start + one, start + other, TENSOR_WEIGHT)
        for start in first
        for one in range(tensor)
        for other in range(one)
    ]
    across = [
        (start + rank, first[(group + 1) % data] + rank, 1)
        for group, start in enumerate(first)
        for rank in range(tensor)
        if data > 1
    ]
    return _from_pairs(ranks, within + across)


def _from_pairs(ranks: int, pairs: Iterable[tuple[int, int, int]]) -> Matrix:
    rows = [[0] * ranks for _ in range(ranks)]
    for one, other, demand in pairs:
        rows[one][other] = rows[other][one] = demand
    return tuple(map(tuple, rows))
