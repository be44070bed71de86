"""Single values of a plan: how each is spelled, and the error where it is not."""

import re

from gres.document import Value
from gres.plan import Nvlink
from pysched import hosts, sizes

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")
_PROFILE = re.compile(r"[0-9A-Za-z][A-Za-z0-9_.+-]{0,62}")
_FEATURE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
JOB_LIST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
TRES = re.compile(r"[A-Za-z][A-Za-z0-9_./:-]{0,126}")
_PATH = re.compile(r"/[^\s\"#,:]*")
_SLURM_VALUE = re.compile(r"[^\s\"#=]+")
_PAIR = re.compile(r"([0-9]{1,4})-([0-9]{1,4})")
_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OWN_PARAMETERS = ("nodename", "gres", "feature", "features")


def named(value: Value, what: str) -> list[tuple[str, Value]]:
    """Names, each of which can be a type of GRES, and what they stand for."""
    found = value.mapping(f"a mapping of names to what {what} is")
    for name, item in found.items():
        if not _NAME.fullmatch(name):
            raise item.error(
                "expected a name of letters, digits, _ - . that begins with a letter, "
                f'at most 63, found "{name}"'
            )
    return list(found.items())


def size(value: Value, least: int = 0) -> int:
    result = value.parsed(sizes.parse_size, "a size such as 4GiB")
    if result < least:
        raise value.expected("a size above 0")
    return result


def milliseconds(value: Value, least: int, most: int) -> int:
    time = value.parsed(sizes.parse_milliseconds, "milliseconds such as 10ms")
    if not least <= time <= most:
        raise value.expected(f"{least}ms to {most}ms")
    return time


def slice_ms(value: Value) -> int:
    return milliseconds(value, 5, 1000)


def slice_range(value: Value) -> tuple[int, int]:
    """``5ms-100ms``."""
    what = "a range such as 5ms-100ms"
    least, _, most = value.text(what).partition("-")
    try:
        found = sizes.parse_milliseconds(least), sizes.parse_milliseconds(most)
    except ValueError:
        raise value.expected(what) from None
    if not 5 <= found[0] <= found[1] <= 1000:
        raise value.expected(f"{what}, within 5ms-1000ms")
    return found


def policy(value: Value) -> str:
    return value.choice(["share", "cap"])


def indices(value: Value, most: int, what: str) -> tuple[int, ...]:
    """``0``, ``0-3`` or ``0-3,8-11`` -> the numbers, ascending."""
    text = value.scalar(what)
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part)
        if match is None:
            raise value.expected(what)
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last or last > most:
            raise value.expected(f"{what}, ascending, up to {most}")
        span = set(range(first, last + 1))
        if span & numbers:
            raise value.expected(f"{what}, each number once")
        numbers |= span
    return tuple(sorted(numbers))


def uuid(value: Value, minors: tuple[int, ...]) -> str:
    text = value.text("a GPU's UUID")
    if not _UUID.fullmatch(text):
        raise value.expected("a UUID such as GPU-01234567-89ab-cdef-0123-456789abcdef")
    if len(minors) > 1:
        raise value.error(f"expected one GPU beside a uuid, found {len(minors)}")
    return text


def mig(value: Value) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Profile -> GPU instance ids."""
    profiles: list[tuple[str, tuple[int, ...]]] = []
    owner: dict[int, str] = {}
    for name, item in value.mapping("a mapping of MIG profile to GPU instance ids").items():
        if not _PROFILE.fullmatch(name):
            raise item.error(f'expected a MIG profile such as 1g.5gb, found "{name}"')
        ids: list[int] = []
        for one in item.items("a list of GPU instance ids such as [7, 8]"):
            ids.append(one.integer(0, 14))
            if ids[-1] in owner:
                raise one.error(f"expected every GPU instance once, found {ids[-1]} again")
            owner[ids[-1]] = name
        if not ids:
            raise item.error("expected at least one GPU instance id, found an empty list")
        profiles.append((name, tuple(sorted(ids))))
    if not profiles:
        raise value.error("expected at least one MIG profile, found an empty mapping")
    return tuple(sorted(profiles, key=lambda pair: hosts.natural_key(pair[0])))


def nvlink(value: Value, minors: list[int]) -> Nvlink:
    """``none``, ``switch``, or a mapping of pairs such as 0-1 to the number of links."""
    what = "none, switch, or a mapping of pairs such as 0-1 to a number of links"
    if value.describe() in ('"none"', '"switch"'):
        return Nvlink(switch=value.text() == "switch")
    pairs: dict[tuple[int, int], int] = {}
    for name, item in value.mapping(what).items():
        match = _PAIR.fullmatch(name)
        pair = tuple(sorted((int(match[1]), int(match[2])))) if match else (0, 0)
        if pair[0] == pair[1] or not set(pair) <= set(minors):
            raise item.error(
                f"expected a pair of two GPUs of this node such as {minors[0]}-{minors[-1]}, "
                f"found {name}"
            )
        if pair in pairs:
            raise item.error(f"expected every pair once, found {name} again")
        pairs[pair[0], pair[1]] = item.integer(1, 36)
    return Nvlink(pairs=tuple((a, b, n) for (a, b), n in sorted(pairs.items())))


def features(value: Value) -> tuple[str, ...]:
    names = words(value, _FEATURE, "a feature's name")
    for name in names:
        if name.startswith("vgpu-"):
            raise value.error(f"expected the site's own features, found {name}: vgpu-* are derived")
    return names


def words(value: Value, pattern: re.Pattern[str], what: str) -> tuple[str, ...]:
    names: list[str] = []
    for item in value.one_or_more(f"a list, each {what}"):
        name = item.text(what)
        if not pattern.fullmatch(name):
            raise item.expected(what)
        if name in names:
            raise item.error(f"expected every name once, found {name} again")
        names.append(name)
    return tuple(names)


def directory(value: Value) -> str:
    path = value.text("an absolute path")
    if not _PATH.fullmatch(path):
        raise value.expected("an absolute path without blanks, quotes, commas, colons and #")
    return path


def directories(value: Value) -> str:
    return ":".join(map(directory, value.one_or_more("an absolute path, or a list of them")))


def parameters(value: Value) -> tuple[tuple[str, str], ...]:
    """What a NodeName line says beside Gres and Feature, in the order of the names."""
    found: dict[str, tuple[str, str]] = {}
    for name, item in value.mapping("a mapping of NodeName parameters").items():
        if not WORD.fullmatch(name):
            raise item.error(f'expected the name of a NodeName parameter, found "{name}"')
        if name.lower() in _OWN_PARAMETERS:
            raise item.error(f"expected what the plan does not generate itself, found {name}")
        if name.lower() in found:
            raise item.error(f"expected every parameter once, found {name} again")
        text = item.scalar("a value without blanks")
        if not _SLURM_VALUE.fullmatch(text):
            raise item.expected("a value without blanks, quotes, = and #")
        found[name.lower()] = (name, text)
    return tuple(found[key] for key in sorted(found))
