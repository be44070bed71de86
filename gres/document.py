"""YAML read strictly: every value knows its key path and line, so that an error can name both."""

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import yaml

_T = TypeVar("_T")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"
_INT = "tag:yaml.org,2002:int"
_STR = "tag:yaml.org,2002:str"
_BOOL = "tag:yaml.org,2002:bool"
_NULL = "tag:yaml.org,2002:null"
_WHOLE = re.compile(r"0|[1-9][0-9]{0,18}")


class PlanError(Exception):
    """One sentence: file and line, key path, what was expected and what was found."""


@dataclass(frozen=True, slots=True)
class Value:
    """A node of the document and the way to it."""

    node: yaml.Node
    file: str
    path: str = ""
    key: yaml.Node | None = None

    @property
    def line(self) -> int:
        """The line of the key, where there is one: a block below begins on a later line."""
        return int((self.key or self.node).start_mark.line) + 1

    def error(self, message: str) -> PlanError:
        where = f"{self.file}:{self.line}: "
        return PlanError(where + (f"{self.path}: {message}" if self.path else message))

    def expected(self, what: str) -> PlanError:
        return self.error(f"expected {what}, found {self.describe()}")

    def describe(self) -> str:
        """The value as an error shows it."""
        if isinstance(self.node, yaml.MappingNode):
            return "a mapping"
        if isinstance(self.node, yaml.SequenceNode):
            return "a list"
        if self.node.tag == _NULL:
            return "nothing"
        text = self.node.value if len(self.node.value) <= 60 else self.node.value[:57] + "..."
        quoted = self.node.tag == _STR and _WHOLE.fullmatch(text)
        return f'the text "{text}"' if quoted else f'"{text}"'

    # --- what a value may be ---------------------------------------------------------------------

    def mapping(self, what: str = "a mapping") -> dict[str, "Value"]:
        """Key -> value. A key twice is an error; ``<<`` merges as YAML says."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.expected(what)
        merged: dict[str, Value] = {}
        own: dict[str, Value] = {}
        for key, node in self.node.value:
            if key.tag == _MERGE:
                for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
                    merged = Value(source, self.file, self.path).mapping() | merged
                continue
            name = self._key(key)
            value = Value(node, self.file, f"{self.path}.{name}" if self.path else name, key)
            if name in own:
                raise value.error(
                    f"expected every key once, found it again (first on line {own[name].line})"
                )
            own[name] = value
        return merged | own

    def fields(self, required: Iterable[str], optional: Iterable[str] = ()) -> dict[str, "Value"]:
        """A mapping with exactly these keys."""
        required, optional = list(required), list(optional)
        allowed = required + optional
        found = self.mapping(f"a mapping with {', '.join(allowed)}")
        for name, value in found.items():
            if name not in allowed:
                near = difflib.get_close_matches(name, allowed, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise value.error(f"expected one of {', '.join(allowed)}, found {name}{hint}")
        for name in required:
            if name not in found:
                raise self.error(f"expected the key {name}, found none")
        return found

    def items(self, what: str = "a list") -> list["Value"]:
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.expected(what)
        return [
            Value(node, self.file, f"{self.path}[{index}]")
            for index, node in enumerate(self.node.value)
        ]

    def one_or_more(self, what: str) -> list["Value"]:
        """The items of a list, or the value itself where it is a scalar."""
        return [self] if isinstance(self.node, yaml.ScalarNode) else self.items(what)

    def text(self, what: str = "text") -> str:
        """A scalar that YAML takes for text, not empty."""
        if not isinstance(self.node, yaml.ScalarNode) or self.node.tag != _STR:
            raise self.expected(what)
        if not self.node.value.strip():
            raise self.error(f"expected {what}, found empty text")
        return str(self.node.value)

    def scalar(self, what: str) -> str:
        """The spelling of a scalar, whatever YAML takes it for: 22.05 stays 22.05."""
        if not isinstance(self.node, yaml.ScalarNode) or self.node.tag == _NULL:
            raise self.expected(what)
        return str(self.node.value)

    def integer(self, least: int, most: int) -> int:
        what = f"a whole number from {least} to {most}"
        if not isinstance(self.node, yaml.ScalarNode) or self.node.tag != _INT:
            raise self.expected(what)
        if not _WHOLE.fullmatch(self.node.value) or not least <= int(self.node.value) <= most:
            raise self.expected(what)
        return int(self.node.value)

    def boolean(self) -> bool:
        if self.node.tag != _BOOL or self.node.value not in ("true", "false"):
            raise self.expected("true or false")
        return bool(self.node.value == "true")

    def choice(self, allowed: Iterable[str]) -> str:
        allowed = list(allowed)
        found = self.scalar(" or ".join(allowed))
        if found not in allowed:
            raise self.expected(" or ".join(allowed))
        return found

    def parsed(self, parse: Callable[[str], _T], what: str) -> _T:
        """Let ``parse`` read the text; its ValueError becomes an error at this place."""
        text = self.scalar(what)
        try:
            return parse(text)
        except ValueError as error:
            raise self.error(str(error)) from None

    def _key(self, key: yaml.Node) -> str:
        if not isinstance(key, yaml.ScalarNode) or key.tag == _NULL or not key.value:
            raise Value(key, self.file, self.path).expected("a plain word as key")
        return str(key.value)


def parse(data: bytes, name: str) -> Value:
    """The one document in the data, which errors call ``name``; PlanError for what is no YAML."""
    try:
        text = data.decode("utf-8")
        node = yaml.compose(text, Loader=_LOADER)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PlanError(f"{name}:{line}: expected UTF-8 text, found other bytes") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise PlanError(f"{name}:{line}: expected YAML, found an error: {error.problem}") from None
    except yaml.YAMLError as error:
        line = text.count("\n", 0, getattr(error, "position", 0) or 0) + 1
        raise PlanError(f"{name}:{line}: expected YAML, found a forbidden character") from None
    except RecursionError:
        raise PlanError(f"{name}:1: expected a plan, found far too deep nesting") from None
    if node is None:
        raise PlanError(f"{name}:1: expected a plan, found an empty document")
    return Value(node, name)
