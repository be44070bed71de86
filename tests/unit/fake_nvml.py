"""NVML for a machine that is described by a few lines, with the functions that pynvml has."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """What pynvml raises."""


@dataclass
class FakeNvml:
    """``bonds``: NVLinks per pair of GPUs; ``switch``: NVLinks of each GPU that end in a switch."""

    gpus: int = 4
    bonds: dict[tuple[int, int], int] = field(default_factory=dict)
    switch: int = 0
    level: int = 50
    version: int = 5
    capability: tuple[int, int] = (8, 0)
    numa: Sequence[int] = ()
    minors: Sequence[int] = ()
    missing: frozenset[str] = frozenset()
    one_sided: bool = False
    """GPU 0 sees one link less to each peer than the peer sees to it."""

    NVMLError = NVMLError
    NVML_NVLINK_MAX_LINKS = 18
    NVML_NVLINK_DEVICE_TYPE_GPU = 0
    NVML_NVLINK_DEVICE_TYPE_SWITCH = 2
    NVML_AFFINITY_SCOPE_NODE = 0
    open_sessions: int = 0

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name in object.__getattribute__(self, "missing"):

            def not_supported(*_: object) -> None:
                raise NVMLError("Not Supported")

            return not_supported
        return object.__getattribute__(self, name)

    def nvmlInit(self) -> None:
        self.open_sessions += 1

    def nvmlShutdown(self) -> None:
        self.open_sessions -= 1

    def nvmlDeviceGetCount(self) -> int:
        return self.gpus

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetMinorNumber(self, gpu: int) -> int:
        return self.minors[gpu] if self.minors else gpu

    def nvmlDeviceGetName(self, gpu: int) -> str:
        return "NVIDIA A100-PCIE-40GB"

    def nvmlDeviceGetCudaComputeCapability(self, gpu: int) -> tuple[int, int]:
        return self.capability

    def nvmlDeviceGetMaxPcieLinkGeneration(self, gpu: int) -> int:
        return 4

    def nvmlDeviceGetMaxPcieLinkWidth(self, gpu: int) -> int:
        return 16

    def nvmlDeviceGetPciInfo(self, gpu: int) -> SimpleNamespace:
        return SimpleNamespace(domain=0, bus=0x41 + gpu, device=0)

    def nvmlDeviceGetTopologyCommonAncestor(self, one: int, other: int) -> int:
        return self.level

    def nvmlDeviceGetMemoryAffinity(self, gpu: int, words: int, scope: int) -> list[int]:
        return [1 << self.numa[gpu]] + [0] * (words - 1) if self.numa else [0] * words

    def nvmlDeviceGetCpuAffinity(self, gpu: int, words: int) -> list[int]:
        half = gpu * 2 // self.gpus
        return [0xFFFF << 16 * half] + [0] * (words - 1)

    # --- links -------------------------------------------------------------------------------

    def ends(self, gpu: int) -> list[int | None]:
        """Where each link of a GPU ends: a peer, or None for a switch."""
        ends: list[int | None] = []
        for (one, other), count in self.bonds.items():
            if gpu in (one, other):
                seen = count - (1 if self.one_sided and gpu == 0 else 0)
                ends += [other if gpu == one else one] * seen
        return ends + [None] * self.switch

    def end(self, gpu: int, link: int) -> int | None:
        ends = self.ends(gpu)
        if link >= len(ends):
            raise NVMLError("Invalid Argument")
        return ends[link]

    def nvmlDeviceGetNvLinkState(self, gpu: int, link: int) -> int:
        self.end(gpu, link)
        return 1

    def nvmlDeviceGetNvLinkVersion(self, gpu: int, link: int) -> int:
        self.end(gpu, link)
        return self.version

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, gpu: int, link: int) -> int:
        switch = self.end(gpu, link) is None
        return self.NVML_NVLINK_DEVICE_TYPE_SWITCH if switch else self.NVML_NVLINK_DEVICE_TYPE_GPU

    def nvmlDeviceGetNvLinkRemotePciInfo(self, gpu: int, link: int) -> SimpleNamespace:
        end = self.end(gpu, link)
        return SimpleNamespace(domain=0, bus=0xC0 if end is None else 0x41 + end, device=0)
