"""The GRES vgpu in what a job asks for: ``gres:vgpu:2`` (22.05), ``gres/vgpu:a:2`` (later)."""

import re
from dataclasses import dataclass

UNTYPED = ""

_ITEM = re.compile(
    r"(?P<prefix>(?:gres[:/])?)vgpu(?::(?P<type>[^:=,]*[^0-9:=,][^:=,]*))?(?:[:=](?P<count>[0-9]+))?"
)


@dataclass(frozen=True)
class Item:
    """One entry of a list; ``type`` is empty where the job leaves it open."""

    type: str
    count: int


def items(text: str) -> list[Item]:
    """The entries that ask for vGPUs.

    >>> items("gres:gpu:1,gres:vgpu:a100-4g:2")
    [Item(type='a100-4g', count=2)]
    """
    return [
        Item(match["type"] or UNTYPED, int(match["count"] or 1))
        for match in map(_ITEM.fullmatch, text.split(","))
        if match
    ]


def with_type(text: str, name: str) -> str:
    """The list with this type in every entry that leaves it open.

    >>> with_type("gres:gpu:1,gres:vgpu:2", "a100-4g")
    'gres:gpu:1,gres:vgpu:a100-4g:2'
    """
    entries = []
    for entry in text.split(","):
        match = _ITEM.fullmatch(entry)
        if match and not match["type"]:
            entries.append(f"{match['prefix']}vgpu:{name}:{match['count'] or 1}")
        else:
            entries.append(entry)
    return ",".join(entries)
