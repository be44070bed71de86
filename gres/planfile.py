"""Reads plan.yaml strictly: every error is one sentence with file, line and key path."""

import gc
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gres import document, release, values
from gres.document import PlanError, Value
from gres.nodesets import Defaults, NodeReader, known_card
from gres.plan import (
    MAX_PRESETS,
    MAX_SMS,
    MAX_TYPES,
    Burst,
    Card,
    Cluster,
    Plan,
    VgpuType,
)
from pysched import sizes

VERSION = 1


def read(path: Path) -> Plan:
    """The plan in the file; PlanError with one sentence for anything that is not right."""
    try:
        return parse(path.read_bytes(), str(path))
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error.strerror}") from None


def parse(data: bytes, name: str = "plan.yaml") -> Plan:
    """The same from memory."""
    try:
        with _no_collection():
            return _plan(document.parse(data, name))
    except RecursionError:
        raise PlanError(f"{name}:1: expected a plan, found a document inside itself") from None


@contextmanager
def _no_collection() -> Iterator[None]:
    """Nothing that reading makes is garbage before its end; looking for some takes most time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _plan(root: Value) -> Plan:
    optional = ["defaults", "workloads", "bursts", "cluster"]
    fields = root.fields(["version", "cards", "types", "nodes"], optional)
    fields["version"].integer(VERSION, VERSION)
    defaults = _defaults(fields.get("defaults"))
    cards = {n: _card(n, v, defaults) for n, v in values.named(fields["cards"], "the card")}
    types = {n: _type(n, v, defaults) for n, v in values.named(fields["types"], "the type")}
    if defaults.card:
        known_card(fields["defaults"].mapping()["card"], defaults.card, cards)
    reader = NodeReader(cards, types, defaults)
    nodes = tuple(reader.read(value) for value in fields["nodes"].items("a list of node sets"))
    if not nodes:
        raise fields["nodes"].error("expected at least one node set, found an empty list")
    used = {vgpu_type.name for node_set in nodes for vgpu_type in node_set.types()}
    if len(used) > MAX_TYPES:
        raise fields["types"].error(f"expected at most {MAX_TYPES} types in use, found {len(used)}")
    cluster = _cluster(fields["cluster"]) if "cluster" in fields else Cluster()
    workloads = _workloads(fields["workloads"]) if "workloads" in fields else presets()
    bursts = _bursts(fields["bursts"]) if "bursts" in fields else ()
    return Plan(root.file, cluster, types, nodes, workloads, bursts)


# --- the parts of a plan ------------------------------------------------------------------------


def _defaults(value: Value | None) -> Defaults:
    if value is None:
        return Defaults()
    read: dict[str, Callable[[Value], Any]] = {
        "reserve": values.size,
        "slice": values.slice_ms,
        "policy": values.policy,
        "card": lambda v: v.text("the name of a card"),
        "features": values.features,
        "slurm": values.parameters,
    }
    found = value.fields([], read)
    names = {"slice": "slice_ms"}
    return Defaults(**{names.get(key, key): read[key](found[key]) for key in found})


def _cluster(value: Value) -> Cluster:
    read: dict[str, Callable[[Value], Any]] = {
        "slurm": lambda v: v.parsed(release.parse, "a release of Slurm such as 22.05"),
        "plugin_dir": values.directories,
        "runtime_dir": values.directory,
        "gres_types": lambda v: values.words(v, values.WORD, "a GRES name"),
        "accounting": Value.boolean,
        "accounting_tres": lambda v: values.words(v, values.TRES, "a TRES such as gres/nic"),
        "job_submit_plugins": lambda v: values.words(v, values.WORD, "a job_submit plugin's name"),
        "submit_bridge": Value.boolean,
        "billing": lambda v: v.integer(1, 1_000_000),
        "slices": values.slice_range,
    }
    found = value.fields([], [*read, "backstop"])
    settings = {key: read[key](found[key]) for key in found if key != "backstop"}
    if "backstop" in found:
        settings |= _backstop(found["backstop"])
    for key in ("accounting_tres", "billing"):
        if key in found and not settings.get("accounting"):
            raise found[key].error(f"expected accounting: true beside {key}, found none")
    return Cluster(**settings)


def _backstop(value: Value) -> dict[str, Any]:
    found = value.fields([], ["mode", "tolerance", "time"])
    settings: dict[str, Any] = {}
    if "mode" in found:
        settings["backstop"] = found["mode"].choice(["end", "warn", "off"])
    if "tolerance" in found:
        settings["tolerance"] = values.size(found["tolerance"])
    if "time" in found:
        settings["tolerance_ms"] = values.milliseconds(found["time"], 1, 3_600_000)
    return settings


def presets() -> tuple[tuple[str, int], ...]:
    """Workloads of a plan that names none."""
    table: dict[str, str] = json.loads(Path(__file__).with_name("workloads.json").read_text())
    return tuple((name, sizes.parse_milliseconds(table[name])) for name in sorted(table))


def _workloads(value: Value) -> tuple[tuple[str, int], ...]:
    found = values.named(value, "the workload")
    if len(found) > MAX_PRESETS:
        raise value.error(f"expected at most {MAX_PRESETS} workloads, found {len(found)}")
    return tuple(sorted((name, values.slice_ms(item)) for name, item in found))


def _bursts(value: Value) -> tuple[Burst, ...]:
    found = values.named(value, "the burst class")
    if len(found) > MAX_PRESETS:
        raise value.error(f"expected at most {MAX_PRESETS} burst classes, found {len(found)}")
    return tuple(sorted((_burst(name, item) for name, item in found), key=lambda b: b.name))


def _burst(name: str, value: Value) -> Burst:
    found = value.fields(["time"], ["qos", "partitions"])
    burst = Burst(
        name,
        values.milliseconds(found["time"], 1, 10_000),
        values.words(found["qos"], values.JOB_LIST, "a QOS") if "qos" in found else (),
        values.words(found["partitions"], values.JOB_LIST, "a partition")
        if "partitions" in found
        else (),
    )
    if not burst.qos and not burst.partitions:
        raise value.error("expected qos or partitions, found none: no job would be of the class")
    for key in ("qos", "partitions"):
        if len(",".join(getattr(burst, key))) > 255:
            raise found[key].error("expected names of together at most 255 characters, found more")
    return burst


def _card(name: str, value: Value, defaults: Defaults) -> Card:
    found = value.fields(["memory", "sms"], ["reserve"])
    memory = values.size(found["memory"], least=1)
    reserve = values.size(found["reserve"]) if "reserve" in found else defaults.reserve
    if reserve >= memory:
        place = found.get("reserve", value)
        raise place.error(
            f"expected a reserve below the memory of {sizes.format_size(memory)}, "
            f"found {sizes.format_size(reserve)}"
        )
    return Card(name, memory, reserve, found["sms"].integer(1, MAX_SMS))


def _type(name: str, value: Value, defaults: Defaults) -> VgpuType:
    found = value.fields(["memory", "sms"], ["max_sms", "slice", "policy"])
    sms = found["sms"].integer(1, MAX_SMS)
    return VgpuType(
        name=name,
        memory=values.size(found["memory"], least=1),
        sms=sms,
        max_sms=found["max_sms"].integer(sms, MAX_SMS) if "max_sms" in found else sms,
        slice_ms=values.slice_ms(found["slice"]) if "slice" in found else defaults.slice_ms,
        policy=values.policy(found["policy"]) if "policy" in found else defaults.policy,
    )
