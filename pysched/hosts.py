"""Host lists in Slurm's syntax: read strictly, written canonically."""

import itertools
import re
from collections.abc import Iterable, Iterator

import hostlist

LONGEST_LINE = 3500  # characters of a list on one line; vgpu.conf allows 4 095 for the whole line

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_LIST = re.compile(r"[A-Za-z0-9_.,\[\]-]+")
_PARTS = re.compile(r"([^0-9]*)([0-9]*)")


def expand(text: str) -> list[str]:
    """The host names in the list, in its order; ValueError with one sentence otherwise.

    >>> expand("n[01-02],login")
    ['n01', 'n02', 'login']
    """
    wanted = f'expected a host list such as n[001-004], found "{text}"'
    if not _LIST.fullmatch(text):
        raise ValueError(wanted)
    if text[0] == "," or text[-1] == "," or ",," in text:
        raise ValueError(f"{wanted}: empty name")
    try:
        names: list[str] = hostlist.expand_hostlist(text, allow_duplicates=True)
    except (hostlist.BadHostlist, ValueError) as error:
        raise ValueError(f"{wanted}: {error}") from None
    for name in names:
        if not _NAME.fullmatch(name) or len(name) > 63:
            raise ValueError(f'{wanted}: "{name}" cannot be a host name')
    return names


def collect(names: Iterable[str]) -> str:
    """The shortest list for the names, in natural order.

    Only the number at the end of a name is folded: the one place where every reader of host lists
    understands brackets.

    >>> collect(["n2", "n10", "n1", "r2n1", "r1n1"])
    'n[1-2,10],r1n1,r2n1'
    """
    return ",".join(_folded(names))


def collect_lines(names: Iterable[str]) -> list[str]:
    """The same, cut into lists that each fit on one line of a configuration file."""
    lines: list[str] = []
    for part in itertools.chain.from_iterable(map(_cut, _folded(names))):
        if lines and len(lines[-1]) + 1 + len(part) <= LONGEST_LINE:
            lines[-1] += "," + part
        else:
            lines.append(part)
    return lines


def natural_key(name: str) -> tuple[tuple[str, int, str], ...]:
    """A sort key that puts n2 before n10.

    >>> sorted(["n10", "n2"], key=natural_key)
    ['n2', 'n10']
    """
    return tuple((text, int(digits or 0), digits) for text, digits in _PARTS.findall(name))


def _folded(names: Iterable[str]) -> Iterator[str]:
    """One ``prefix[ranges]`` for each prefix."""
    families: dict[str, list[str]] = {}
    for name in names:
        families.setdefault(name.rstrip("0123456789"), []).append(name)
    for prefix in sorted(families, key=natural_key):
        yield hostlist.collect_hostlist(families[prefix])


def _cut(part: str) -> Iterator[str]:
    """``n[1,3,5]`` -> ``n[1,3]``, ``n[5]`` where the whole would be too long for a line."""
    if len(part) <= LONGEST_LINE:
        yield part
        return
    prefix, _, ranges = part.removesuffix("]").partition("[")
    line = ""
    for one in ranges.split(","):
        if line and len(prefix) + len(line) + len(one) + 3 > LONGEST_LINE:
            yield f"{prefix}[{line}]"
            line = ""
        line += "," * bool(line) + one
    yield f"{prefix}[{line}]"
