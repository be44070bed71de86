"""Slurm's expressions of node features, as far as they concern one node: names, &, |, ()."""

import re
from collections.abc import Callable
from functools import lru_cache

Expression = Callable[[frozenset[str]], bool]

_TOKEN = re.compile(r"[&|()]|[^&|()\s]+")
_NAME = re.compile(r"[A-Za-z0-9_.=+-]+")


def both(user: str, ours: str) -> str:
    """A user's expression and one of ours.

    >>> both("a|b", "vgpu-nvlink4"), both("", "vgpu-nvlink4")
    ('(a|b)&vgpu-nvlink4', 'vgpu-nvlink4')
    """
    return f"({user})&{ours}" if user else ours


@lru_cache(maxsize=1024)
def parse(text: str) -> Expression | None:
    """What says whether a node with given features satisfies the text. None: it is not known.

    Counts (``a*2``) and brackets are about sets of nodes, not about one.

    >>> parse("a&(b|c)")(frozenset({"a", "c"}))
    True
    """
    if not text:
        return lambda _: True
    tokens = _TOKEN.findall(text)
    try:
        expression, rest = _alternatives(tokens)
    except ValueError:
        return None
    return None if rest else expression


def _alternatives(tokens: list[str]) -> tuple[Expression, list[str]]:
    first, rest = _conjunction(tokens)
    terms = [first]
    while rest[:1] == ["|"]:
        term, rest = _conjunction(rest[1:])
        terms.append(term)
    return (lambda node: any(term(node) for term in terms)), rest


def _conjunction(tokens: list[str]) -> tuple[Expression, list[str]]:
    first, rest = _term(tokens)
    terms = [first]
    while rest[:1] == ["&"]:
        term, rest = _term(rest[1:])
        terms.append(term)
    return (lambda node: all(term(node) for term in terms)), rest


def _term(tokens: list[str]) -> tuple[Expression, list[str]]:
    if tokens[:1] == ["("]:
        inner, rest = _alternatives(tokens[1:])
        if rest[:1] != [")"]:
            raise ValueError("a parenthesis is open")
        return inner, rest[1:]
    if not tokens or not _NAME.fullmatch(tokens[0]):
        raise ValueError("no name")
    name = tokens[0]
    return (lambda node: name in node), tokens[1:]
