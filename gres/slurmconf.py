"""Slurm's configuration files as Slurm reads them: lines of Key=Value, includes, continuations."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import hostlist

_WORD = re.compile(r"""([A-Za-z][\w-]*)\s*=\s*("[^"]*"|'[^']*'|[^\s"']*)""")
_INCLUDE = re.compile(r"include\s+(\S+)", re.IGNORECASE)
_COUNTED = re.compile(r"(.+):([0-9]+[KMGTP]?)")
_MOST_INCLUDES = 64


class ReadError(Exception):
    """One sentence: which file cannot be read, and why."""


@dataclass(frozen=True)
class Line:
    """One line; keys in lower case, a key that is repeated keeps its last value."""

    file: Path
    number: int
    values: dict[str, str]

    @property
    def where(self) -> str:
        return f"{self.file}:{self.number}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One device of a GRES, or several that have no file."""

    name: str
    type: str
    count: int
    file: str
    cores: str
    links: str
    where: str

    @property
    def gres(self) -> str:
        """``vgpu:a100-4g``, as on a NodeName line."""
        return f"{self.name}:{self.type}" if self.type else self.name

    @property
    def device(self) -> tuple[str, str, str, str, int]:
        """What it is, wherever it stands."""
        return self.gres, self.file, self.cores, self.links, self.count


def read(path: Path) -> list[Line]:
    """All lines of the file and of what it includes, in order."""
    return list(_lines(path, path.parent, [0]))


def parse(text: str, path: Path) -> list[Line]:
    """The lines of a text without includes; ``path`` stands for the file."""
    return [Line(path, number, values) for number, values in _statements(text) if values]


def _lines(path: Path, folder: Path, depth: list[int]) -> Iterator[Line]:
    depth[0] += 1
    if depth[0] > _MOST_INCLUDES:
        raise ReadError(f"{path}: more than {_MOST_INCLUDES} files include one another")
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ReadError(f"{path}: cannot be read: {error.strerror}") from None
    for number, statement in _logical(text):
        include = _INCLUDE.fullmatch(statement)
        if include:
            target = folder / include[1]
            found = sorted(target.parent.glob(target.name)) if "*" in target.name else [target]
            for included in found:
                yield from _lines(included, folder, depth)
        elif values := _values(statement):
            yield Line(path, number, values)


def _logical(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, continued lines joined, with the number of their first line."""
    joined, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        bare = re.sub(r"(?<!\\)#.*", "", line).rstrip()
        first = first or number
        if bare.endswith("\\"):
            joined += bare[:-1] + " "
            continue
        statement = (joined + bare).strip()
        if statement:
            yield first, statement
        joined, first = "", 0
    if joined.strip():
        yield first, joined.strip()


def _statements(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    return ((number, _values(statement)) for number, statement in _logical(text))


def _values(statement: str) -> dict[str, str]:
    return {match[1].lower(): match[2].strip("\"'") for match in _WORD.finditer(statement)}


def last(lines: Iterable[Line], key: str) -> Line | None:
    """The line that decides on a parameter that may stand only once: the last one."""
    return next((line for line in reversed(list(lines)) if key.lower() in line.values), None)


# --- gres.conf ------------------------------------------------------------------------------------


def gres_entries(lines: Sequence[Line], node: str) -> list[Entry]:
    """The devices that gres.conf gives a node, in order."""
    entries: list[Entry] = []
    for place in lines_of(lines, node):
        entries += _line_entries(lines[place])
    return entries


def lines_of(lines: Sequence[Line], node: str) -> tuple[int, ...]:
    """Which lines of gres.conf speak of devices of the node."""
    return tuple(
        place
        for place, line in enumerate(lines)
        if "name" in line.values
        and ("nodename" not in line.values or node in host_set(line.values["nodename"]))
    )


def _line_entries(line: Line) -> list[Entry]:
    values = line.values
    count = values.get("count", "")
    if "multiplefiles" in values:
        files = [values["multiplefiles"]]
    elif "file" in values:
        files = _expand(values["file"])
    else:
        files = []
    # Of what has files, each is one device; only shares of a device are counted apart.
    counts = [int(count)] if count.isdecimal() and len(files) <= 1 else [1] * max(1, len(files))
    return [
        Entry(
            values["name"],
            values.get("type", ""),
            number,
            file,
            values.get("cores", values.get("cpus", "")),
            values.get("links", ""),
            line.where,
        )
        for number, file in zip(counts, files or [""], strict=True)
    ]


def _expand(text: str) -> list[str]:
    try:
        return list(hostlist.expand_hostlist(text, allow_duplicates=True))
    except hostlist.BadHostlist:
        return [text]


@cache
def host_set(text: str) -> frozenset[str]:
    """The names in a host list of Slurm; one that is not well formed has none."""
    try:
        return frozenset(hostlist.expand_hostlist(text))
    except hostlist.BadHostlist:
        return frozenset()


def gres_counts(entries: Iterable[Entry]) -> dict[str, int]:
    """``vgpu:a100-4g`` -> count."""
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry.gres] = counts.get(entry.gres, 0) + entry.count
    return counts


def parse_gres(text: str) -> dict[str, int]:
    """The GRES of a NodeName line or of scontrol -> counts.

    >>> parse_gres("vgpu:a100-4g:16(S:0-1),gpu:2,shard:a100:1K")
    {'vgpu:a100-4g': 16, 'gpu': 2, 'shard': 1024}
    """
    counts: dict[str, int] = {}
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        match = _COUNTED.fullmatch(part.strip())
        name, count = (match[1], _count(match[2])) if match else (part.strip(), 1)
        if name.startswith("shard:"):  # Slurm shows the type of the card that is shared
            name = "shard"
        if name and name != "null":
            counts[name] = counts.get(name, 0) + count
    return counts


def _count(text: str) -> int:
    """Slurm writes 1024 as 1K."""
    unit = "KMGTP".find(text[-1]) + 1
    return int(text.rstrip("KMGTP")) << 10 * unit
