"""The number that a Slurm plugin states as its version, read without loading the plugin."""

import struct
from pathlib import Path

_SHT_DYNSYM = 11


def plugin_version(path: Path) -> str | None:
    """``22.05.8`` for a plugin built against it; None for a file that is no plugin of Slurm."""
    try:
        value = _symbol(path.read_bytes(), b"plugin_version")
    except (struct.error, IndexError, ValueError, OverflowError):
        return None
    if value is None:
        return None
    return f"{value >> 16 & 0xFF:02}.{value >> 8 & 0xFF:02}.{value & 0xFF}"


def _symbol(data: bytes, wanted: bytes) -> int | None:
    """The 32-bit value at a dynamic symbol of a 64-bit little-endian object."""
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    (offset,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    for _, kind, _, _, start, length, link, _, _, entry in sections:
        if kind != _SHT_DYNSYM:
            continue
        names = sections[link][4]
        for at in range(start, start + length, entry):
            name, _, _, section, address, _ = struct.unpack_from("<IBBHQQ", data, at)
            end = data.index(b"\0", names + name)
            if data[names + name : end] == wanted and 0 < section < count:
                home = sections[section]
                (value,) = struct.unpack_from("<I", data, address - home[3] + home[4])
                return int(value)
    return None
