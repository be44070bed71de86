"""Our part of a text that is the site's too: ``vgpu{...}`` in a node's Extra or a job's comment."""

import re

# A segment that has lost its end stops at the first blank: ours has none.
_HARMFUL = re.compile(r"[;{}\n]")
_SEGMENT = re.compile(r"vgpu\{(?:([^{}]*)\}|[^\s{}]*)")


def read(text: str) -> str | None:
    """What our segment holds, or None if there is no whole one.

    >>> read("rack 3 vgpu{1;n=2} spare")
    '1;n=2'
    """
    found = _SEGMENT.search(text)
    return found[1] if found else None


def put(text: str, content: str) -> str:
    """The text with our segment replaced in place, or appended.

    >>> put("rack 3 vgpu{1;n=2} spare", "1;n=4")
    'rack 3 vgpu{1;n=4} spare'
    >>> put("rack 3", "1;n=4")
    'rack 3 vgpu{1;n=4}'
    """
    segment = f"vgpu{{{content}}}"
    found = _SEGMENT.search(text)
    if found:
        return text[: found.start()] + segment + text[found.end() :]
    return f"{text} {segment}" if text else segment


def get_field(text: str, key: str) -> str | None:
    """The value of a key in our segment.

    >>> get_field("vgpu{needs=vgpu-nvlink4;gpus=n1:0,1}", "gpus")
    'n1:0,1'
    """
    for field in (read(text) or "").split(";"):
        name, equals, value = field.partition("=")
        if equals and name.strip() == key:
            return value
    return None


def set_field(text: str, key: str, value: str) -> str:
    """The text with this key set in our segment; its other keys stay.

    >>> set_field("rack 3", "needs", "vgpu-nvlink4")
    'rack 3 vgpu{needs=vgpu-nvlink4}'
    """
    fields = [field for field in (read(text) or "").split(";") if field]
    kept = [field for field in fields if field.partition("=")[0].strip() != key]
    return put(text, ";".join([*kept, f"{key}={_HARMFUL.sub(' ', value)}"]))
