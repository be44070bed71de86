"""Nodes from the text of ``scontrol show node``: all that there is before 24.11."""

import re
from collections.abc import Iterable, Mapping, Sequence

from pysched.slurm import model, scontrol
from pysched.slurm.model import NodeInfo, SlurmError

FREE_TEXT = ("OS", "Comment", "Extra", "Reason", "InstanceId", "InstanceType")
"""Fields that take the rest of their line, whatever it holds."""

_FIELD = re.compile(r"([A-Za-z_][\w:/]*)=(\S*)")
_RECORD = re.compile(r"(?m)^(?=NodeName=)")


def nodes(names: Sequence[str] = ()) -> list[NodeInfo]:
    """All nodes, or these."""
    printed = scontrol.run(
        ["show", "node", "-d", ",".join(names)] if names else ["show", "node", "-d"]
    )
    return [parse(record) for record in records(printed)]


def records(printed: str) -> list[str]:
    """The text of each node."""
    return [record for record in _RECORD.split(printed) if record.startswith("NodeName=")]


def parse(record: str) -> NodeInfo:
    """One node's text."""
    fields = dict(_fields(record))
    used = model.vgpus(_value(fields, "GresUsed"))
    features = _value(fields, "ActiveFeatures") or _value(fields, "AvailableFeatures")
    try:
        return NodeInfo(
            name=fields["NodeName"],
            states=model.states_of(fields["State"]),
            partitions=tuple(filter(None, _value(fields, "Partitions").split(","))),
            features=frozenset(filter(None, features.split(","))),
            slots=model.by_type(model.vgpus(_value(fields, "Gres"))),
            used=model.by_type(used),
            used_slots=frozenset[int]().union(*(each.indices for each in used)),
            cpus=int(fields["CPUTot"]),
            cpus_used=int(fields["CPUAlloc"]),
            memory=int(fields["RealMemory"]),
            memory_used=int(fields["AllocMem"]),
            report=model.report_of(fields.get("Extra")),
        )
    except (KeyError, ValueError) as error:
        raise SlurmError(f"scontrol show node: {record[:60]!r} lacks or garbles {error}") from None


def _fields(record: str) -> Iterable[tuple[str, str]]:
    for line in record.splitlines():
        text = line.strip()
        name, equals, value = text.partition("=")
        if equals and name in FREE_TEXT:
            yield name, value
        else:
            yield from _FIELD.findall(text)


def _value(fields: Mapping[str, str], name: str) -> str:
    """A field, empty where Slurm writes that there is nothing."""
    value = fields.get(name, "")
    return "" if value in ("(null)", "N/A") else value
