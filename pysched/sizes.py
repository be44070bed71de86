"""Sizes of memory and lengths of time with explicit units, as in plan.yaml and vgpu.conf."""

import re

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
LARGEST = (1 << 64) - 1

_SIZE = re.compile(r"([0-9]+)([KMGT])(?:iB)?")
_NEARLY = re.compile(r"\+?([0-9]+)(?:\.([0-9]+))?\s*([KMGT])i?B?", re.IGNORECASE)
_MILLISECONDS = re.compile(r"([0-9]+)ms")


def parse_size(text: str) -> int:
    """Return the bytes that ``text`` stands for; raise ValueError with one sentence otherwise.

    >>> parse_size("4GiB") == parse_size("4G") == parse_size("4096MiB")
    True
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(
            "expected a whole number with KiB, MiB, GiB or TiB (or K, M, G, T), "
            f'found "{text}"{_advice(text)}'
        )
    size = int(match[1]) * UNITS[match[2]] if len(match[1]) <= 20 else LARGEST + 1
    if size > LARGEST:
        raise ValueError(f'expected a size below 16777216TiB, found "{text}"')
    return size


def _advice(text: str) -> str:
    """What was probably meant, as the end of an error sentence."""
    match = _NEARLY.fullmatch(text.strip())
    if match is None or len(match[1]) > 18:
        return ""
    whole, fraction, unit = match[1], match[2] or "", match[3].upper()
    scaled = int(whole + fraction) * UNITS[unit]
    size, rest = divmod(scaled, 10 ** len(fraction))
    if rest or size % UNITS["K"] or not size:
        return ""
    return f"; write {format_size(size)}"


def format_size(size: int) -> str:
    """The shortest exact spelling that parse_size reads back (``size`` a multiple of 1 KiB).

    >>> format_size(4 << 30), format_size(1536 << 20)
    ('4GiB', '1536MiB')
    """
    for unit in "TGMK":
        if size and size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]}{unit}iB"
    if size == 0:
        return "0KiB"
    raise ValueError(f"{size} bytes is not a multiple of 1 KiB")


def approximate_size(size: int) -> str:
    """A size for people: four significant digits at most.

    >>> approximate_size(0), approximate_size(4 << 30), approximate_size(1600 << 20)
    ('0', '4 GiB', '1.562 GiB')
    """
    for unit in "TGMK":
        if size >= UNITS[unit]:
            return f"{size / UNITS[unit]:.4g} {unit}iB"
    return str(size)


def parse_milliseconds(text: str) -> int:
    """``10ms`` -> 10; ValueError with one sentence otherwise."""
    match = _MILLISECONDS.fullmatch(text)
    if match is None or len(match[1]) > 9:
        raise ValueError(f'expected whole milliseconds such as 10ms, found "{text}"')
    return int(match[1])
