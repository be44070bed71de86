"""The lines between the bridge in slurmctld and vgpu-select.

A request is one line: ``vgpu1`` and fields ``key=value``, separated by tabs, with %09, %0A, %0D and
%25 in values. An answer is four hexadecimal digits, the length of the text behind them: ``accept``
with the fields of the job to set, or ``refuse`` with ``message=``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

VERSION = "vgpu1"
LONGEST = 1 << 15
LONGEST_ANSWER = 0xFFFF

_ESCAPED = re.compile(r"%(09|0A|0D|25)")
_SPECIAL = re.compile(r"[%\t\n\r]")
_NUMBER = re.compile(r"[0-9]{1,9}")


class ProtocolError(Exception):
    """One sentence: what is wrong with a line."""


@dataclass(frozen=True)
class JobRequest:
    """What a job asks for, as far as vGPUs are concerned. Texts are empty where nothing is set.

    Of a change to a job (``op`` modify) only what is changed is set, but ``admin_comment`` is the
    job's own.
    """

    op: str = "submit"
    tres_per_node: str = ""
    tres_per_job: str = ""
    tres_per_socket: str = ""
    tres_per_task: str = ""
    features: str = ""
    prefer: str = ""
    partition: str = ""
    admin_comment: str = ""
    comm: str = ""
    affinity: str = ""
    mem: str = ""
    colocate: str = ""
    req_nodes: str = ""
    exc_nodes: str = ""
    picky: str = ""
    """Not empty: it demands more of nodes than is told here."""
    nodes: int = 1
    tasks: int = 1
    cpus_per_task: int = 1
    mem_per_node: int = 0
    mem_per_cpu: int = 0
    """In MiB, as all memory of Slurm."""


@dataclass(frozen=True)
class Accept:
    """Take the job, with these fields changed."""

    changes: Mapping[str, str]


@dataclass(frozen=True)
class Refuse:
    """Do not take the job; the message is for the user."""

    message: str


Answer = Accept | Refuse


def read_request(line: str) -> JobRequest:
    """Raises ProtocolError."""
    version, *parts = line.split("\t")
    if version != VERSION:
        raise ProtocolError(f'the line starts with "{version[:20]}", not with {VERSION}')
    kinds = {each.name: each.type for each in fields(JobRequest)}
    found: dict[str, str | int] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or key not in kinds or key in found:
            raise ProtocolError(f'"{key[:40]}" is not a field that may stand here')
        if kinds[key] is int:
            if not _NUMBER.fullmatch(value):
                raise ProtocolError(f'{key}= is a number, not "{value[:40]}"')
            found[key] = int(value)
        else:
            found[key] = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), value)
    request = JobRequest(**found)  # type: ignore[arg-type]
    if request.op not in ("submit", "modify"):
        raise ProtocolError(f'op= is submit or modify, not "{request.op[:40]}"')
    return request


def write_answer(answer: Answer) -> bytes:
    """The answer with its length."""
    if isinstance(answer, Accept):
        words = ["accept", *(f"{key}={_escape(value)}" for key, value in answer.changes.items())]
    else:
        words = ["refuse", f"message={_escape(answer.message)}"]
    text = "\t".join(words).encode()
    if len(text) > LONGEST_ANSWER:
        text = b"accept"
    return b"%04x" % len(text) + text


def write_request(request: JobRequest) -> bytes:
    """The line of a request, as the bridge writes it."""
    words = [VERSION]
    for each in fields(JobRequest):
        value = getattr(request, each.name)
        if value != each.default:
            words.append(f"{each.name}={_escape(str(value))}")
    return "\t".join(words).encode() + b"\n"


def read_answer(data: bytes) -> Answer:
    """An answer without its length. Raises ProtocolError."""
    verb, *parts = data.decode(errors="replace").split("\t")
    found = {}
    for part in parts:
        key, _, value = part.partition("=")
        found[key] = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), value)
    if verb == "accept":
        return Accept(found)
    if verb == "refuse" and "message" in found:
        return Refuse(found["message"])
    raise ProtocolError(f'"{verb[:40]}" is no answer')


def _escape(value: str) -> str:
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", value)
