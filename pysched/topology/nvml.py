"""The topology of this node as NVML sees it."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pysched.topology import rates
from pysched.topology.model import Gpu, Link, Path, Ranges, Topology, to_ranges
from pysched.topology.rates import Rates

CPUINFO = FilePath("/proc/cpuinfo")
WORD = 64
_NOT_NAME = re.compile(r"[^A-Za-z0-9_.()/-]")
CPU_WORDS = 64
NUMA_WORDS = 16

Value = TypeVar("Value")


class NvmlError(Exception):
    """One sentence: NVML does not answer."""


@dataclass
class _Ends:
    """Where the NVLinks of one GPU end, and NVML's version of them."""

    peers: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    switch: int = 0
    version: int = 0


def read(nvml: Any = None, cpuinfo: FilePath = CPUINFO) -> Topology:
    """Ask NVML. Raises NvmlError where it cannot say what GPUs there are.

    ``nvml`` has the functions of the module pynvml, which is the default.
    """
    if nvml is None:
        import pynvml  # noqa: PLC0415 (not everyone who reads maps needs it)

        nvml = pynvml
    with _session(nvml):
        handles = [nvml.nvmlDeviceGetHandleByIndex(at) for at in range(nvml.nvmlDeviceGetCount())]
        ends = [_link_ends(nvml, handle) for handle in handles]
        gpus = tuple(
            _gpu(nvml, handle, end.version) for handle, end in zip(handles, ends, strict=True)
        )
        at_address = [_address(nvml.nvmlDeviceGetPciInfo(handle)) for handle in handles]
        links = tuple(
            Link(
                _bond(ends[one], ends[other], at_address[one], at_address[other]),
                _path(nvml, handles[one], handles[other]),
            )
            for one, other in combinations(range(len(handles)), 2)
        )
    socket = rates.socket_rate(cpuinfo.read_text()) if cpuinfo.exists() else rates.SOCKET
    return Topology(gpus, links, socket=socket, switch=any(end.switch for end in ends))


@contextmanager
def _session(nvml: Any) -> Iterator[None]:
    try:
        nvml.nvmlInit()
        try:
            yield
        finally:
            nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        raise NvmlError(f"NVML does not say what GPUs this node has: {error}") from error


def _ask(nvml: Any, default: Value, call: Callable[..., Value], *arguments: object) -> Value:
    """What a call says, or the default where this driver or card does not know it."""
    try:
        return call(*arguments)
    except nvml.NVMLError:
        return default


def _address(pci: Any) -> tuple[int, int, int]:
    return pci.domain, pci.bus, pci.device


def _link_ends(nvml: Any, handle: object) -> _Ends:
    """Follow each active NVLink. On NVSwitch machines the far end is a switch, not the peer."""
    ends = _Ends()
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        if not _ask(nvml, 0, nvml.nvmlDeviceGetNvLinkState, handle, link):
            continue
        ends.version = _ask(nvml, ends.version, nvml.nvmlDeviceGetNvLinkVersion, handle, link)
        kind = _ask(nvml, None, nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
        if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            ends.switch += 1
            continue
        remote = _ask(nvml, None, nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
        if remote is not None:
            ends.peers[_address(remote)] += 1
    return ends


def _bond(one: _Ends, other: _Ends, at_one: Any, at_other: Any) -> int:
    """NVLinks between two GPUs; where the ends disagree, what both confirm."""
    return min(one.peers[at_other], other.peers[at_one]) + min(one.switch, other.switch)


def _path(nvml: Any, one: object, other: object) -> Path:
    """The way over PCIe; the longest where NVML does not know it."""
    level = _ask(nvml, Path.SYS, nvml.nvmlDeviceGetTopologyCommonAncestor, one, other)
    return Path(level) if level in list(Path) else Path.SYS


def _gpu(nvml: Any, handle: object, link_version: int) -> Gpu:
    capability = _ask(nvml, (0, 0), nvml.nvmlDeviceGetCudaComputeCapability, handle)
    generation = _ask(nvml, 4, nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle)
    lanes = _ask(nvml, rates.PCIE_LANES, nvml.nvmlDeviceGetMaxPcieLinkWidth, handle)
    numa = _ask(
        nvml,
        (),
        nvml.nvmlDeviceGetMemoryAffinity,
        handle,
        NUMA_WORDS,
        nvml.NVML_AFFINITY_SCOPE_NODE,
    )
    return Gpu(
        Rates(
            rates.nvlink_rate(link_version, (capability[0], capability[1])),
            rates.pcie_rate(generation, lanes),
        ),
        minor=_ask(nvml, None, nvml.nvmlDeviceGetMinorNumber, handle),
        name=_name(_ask(nvml, "", nvml.nvmlDeviceGetName, handle)),
        numa=_bits(numa),
        cpus=_bits(_ask(nvml, (), nvml.nvmlDeviceGetCpuAffinity, handle, CPU_WORDS)),
    )


def _name(name: str | bytes) -> str:
    """A card's name as one word: NVIDIA A100-PCIE-40GB -> A100-PCIE-40GB."""
    text = name.decode(errors="replace") if isinstance(name, bytes) else name
    words = text.removeprefix("NVIDIA ").split()
    return _NOT_NAME.sub("", "-".join(words))[:64]


def _bits(words: Iterable[int]) -> Ranges:
    """The bits that are set in NVML's array of words."""
    return to_ranges(
        at * WORD + bit for at, word in enumerate(words) for bit in range(WORD) if word >> bit & 1
    )
