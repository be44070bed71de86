"""Our part of a text that is the site's too: ``vgpu{...}`` in a node's Extra or a job's comment."""

import re

# A segment that has lost its end stops at the first blank: ours has none.
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
