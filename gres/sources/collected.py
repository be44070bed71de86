"""Nodes as an administrator collected them: a folder of texts, named by the nodes.

``NODE.anything`` or ``NODE`` holds the output of one of ``nvidia-smi -q -x``, ``nvidia-smi topo
-m``, ``slurmd -C``, ``lscpu -p``; what it is shows in the text itself. The first is needed, the
others add to it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

from gres.plan import Nvlink
from gres.sources import cards, links
from gres.sources.cpus import from_affinities, from_lscpu
from gres.sources.live import parse_slurmd
from gres.sources.machine import Cpus, Gpu, Machine, SourceError
from pysched import hosts
from pysched.topology import smi
from pysched.topology.model import Topology, TopologyError, numbers

_MIB = re.compile(r"([0-9]{1,9}) MiB")
_TEXT = 8 << 20  # more is no output of these commands


@dataclass
class _Node:
    """What has been found of one node so far."""

    query: Path | None = None
    driver: str = ""
    gpus: tuple[Gpu, ...] = ()
    topology: Topology | None = None
    slurm: dict[str, str] | None = None
    cpus: Cpus | None = None


def read(folder: Path) -> list[Machine]:
    """All nodes of the folder, in natural order; SourceError with one sentence otherwise."""
    nodes: dict[str, _Node] = {}
    try:
        files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        for path in files:
            if path.is_file():
                _read_file(path, nodes.setdefault(path.name.partition(".")[0], _Node()))
    except OSError as error:
        raise SourceError(f"{error.filename}: cannot be read: {error.strerror}") from None
    if not nodes:
        raise SourceError(f"{folder}: no files; collect nvidia-smi -q -x > NODE.xml of each node")
    return [_machine(folder, name, nodes[name]) for name in sorted(nodes, key=hosts.natural_key)]


def _read_file(path: Path, node: _Node) -> None:
    if path.stat().st_size > _TEXT:
        raise SourceError(f"{path}: larger than any output of nvidia-smi")
    text = path.read_bytes().decode(errors="replace")
    kinds: list[tuple[str, Callable[[Path, str, _Node], None]]] = [
        (r"\s*(<\?xml|<nvidia_smi_log)", _read_query),
        (r"(?s).*^\W*GPU0\b", _read_topology),
        (r"NodeName=", _read_slurmd),
        (r"(?s).*^[0-9]+,[0-9]+,[0-9]+", _read_lscpu),
    ]
    for pattern, read_kind in kinds:
        if re.match(pattern, text, re.MULTILINE):
            read_kind(path, text, node)
            return
    raise SourceError(
        f"{path}: expected the output of nvidia-smi -q -x or topo -m, of slurmd -C or of lscpu -p"
    )


def _read_topology(path: Path, text: str, node: _Node) -> None:
    try:
        node.topology = smi.read(text, str(path))
    except TopologyError as error:
        raise SourceError(str(error)) from None


def _read_slurmd(_path: Path, text: str, node: _Node) -> None:
    node.slurm = parse_slurmd(text)


def _read_lscpu(_path: Path, text: str, node: _Node) -> None:
    node.cpus = from_lscpu(text)


def _read_query(path: Path, text: str, node: _Node) -> None:
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        line, column = error.position
        raise SourceError(
            f"{path}:{line}:{column}: not XML as nvidia-smi -q -x writes it"
        ) from None
    node.query, node.driver = path, root.findtext("driver_version", "").strip()
    gpus = [_gpu(path, place, element) for place, element in enumerate(root.findall("gpu"))]
    if not gpus:
        raise SourceError(f"{path}: no <gpu> in it; expected the output of nvidia-smi -q -x")
    node.gpus = tuple(gpus)


def _gpu(path: Path, place: int, element: ElementTree.Element) -> Gpu:
    def text(name: str) -> str:
        return (element.findtext(name) or "").strip()

    def mib(name: str) -> int | None:
        match = _MIB.fullmatch(text(name))
        return int(match[1]) << 20 if match else None

    memory, product, minor = (
        mib("fb_memory_usage/total"),
        text("product_name"),
        text("minor_number"),
    )
    if memory is None or not product or not minor.isdecimal():
        raise SourceError(
            f"{path}: GPU {place} has no product_name, minor_number or fb_memory_usage/total"
        )
    return Gpu(
        minor=int(minor),
        product=product,
        uuid=text("uuid"),
        memory=memory,
        reserved=mib("fb_memory_usage/reserved"),
        sms=cards.sms(product),
        mig=text("mig_mode/current_mig") == "Enabled",
        compute_mode=text("compute_mode").lower().replace("_", "-"),
        persistence={"Enabled": True, "Disabled": False}.get(text("persistence_mode")),
    )


def _machine(folder: Path, name: str, node: _Node) -> Machine:
    if node.query is None:
        raise SourceError(f"{folder}: no nvidia-smi -q -x of node {name}; collect it as {name}.xml")
    gpus, nvlink = node.gpus, Nvlink()
    if node.topology is not None:
        gpus, nvlink = _joined(node.query, gpus, node.topology)
    slurm = node.slurm or {}
    numbering = node.cpus or from_affinities([gpu.cpus for gpu in gpus], slurm)
    return Machine(name, f"files of {folder}", gpus, nvlink, node.driver, numbering, slurm)


def _joined(
    query: Path, gpus: tuple[Gpu, ...], topology: Topology
) -> tuple[tuple[Gpu, ...], Nvlink]:
    """GPUs with their CPUs, and their links: both texts list them in NVML's order."""
    if len(topology) != len(gpus):
        raise SourceError(
            f"{query}: {len(gpus)} GPUs, but {len(topology)} in nvidia-smi topo -m of the same node"
        )
    paired = list(zip(gpus, topology.gpus, strict=True))
    joined = tuple(replace(gpu, cpus=numbers(other.cpus)) for gpu, other in paired)
    named = tuple(replace(other, minor=gpu.minor) for gpu, other in paired)
    return joined, links.nvlink(replace(topology, gpus=named))
