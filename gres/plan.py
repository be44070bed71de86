"""What a plan says, once it has been read. gres/planfile.py reads it, docs/plan.md describes it."""

from collections.abc import Mapping
from dataclasses import dataclass

from pysched import paths

MAX_SLOTS = 1024  # of a node: Slurm's own limit
MAX_VGPU_GPUS = 32  # of a node
MAX_TYPES = 64  # in use, of all nodes
MAX_GPU = 1023  # highest minor number
MAX_SMS = 65535
MAX_PRESETS = 32  # workloads, and burst classes


@dataclass(frozen=True, slots=True)
class Card:
    """A model of GPU."""

    name: str
    memory: int
    reserve: int
    sms: int


@dataclass(frozen=True, slots=True)
class VgpuType:
    name: str
    memory: int
    sms: int
    max_sms: int
    slice_ms: int
    policy: str


@dataclass(frozen=True, slots=True)
class Gpus:
    """GPUs of a node that are used alike; in a layout each is alone."""

    minors: tuple[int, ...]
    card: Card
    cores: tuple[int, ...] = ()
    uuid: str = ""
    vgpus: tuple[tuple[VgpuType, int], ...] = ()
    whole: bool = False
    shards: int = 0
    mig: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def minor(self) -> int:
        """The minor number of a single GPU."""
        return self.minors[0]


@dataclass(frozen=True, slots=True)
class Nvlink:
    """Links between the GPUs of a node: through a switch, or a count for each linked pair."""

    switch: bool = False
    pairs: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSet:
    names: tuple[str, ...]
    gpus: tuple[Gpus, ...]
    features: tuple[str, ...]
    nvlink: Nvlink
    slurm: tuple[tuple[str, str], ...]

    def types(self) -> set[VgpuType]:
        return {vgpu_type for gpus in self.gpus for vgpu_type, _ in gpus.vgpus}


@dataclass(frozen=True, slots=True)
class Burst:
    """A class of jobs that may run ahead of their share for a while when they wake up."""

    name: str
    time_ms: int
    qos: tuple[str, ...]
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    slurm: str = ""
    plugin_dir: str = str(paths.SLURM_PLUGINS)
    runtime_dir: str = str(paths.RUNTIME_DIR)
    gres_types: tuple[str, ...] = ()
    accounting: bool = False
    accounting_tres: tuple[str, ...] = ()
    job_submit_plugins: tuple[str, ...] = ()
    submit_bridge: bool = False
    billing: int = 0
    backstop: str = "end"
    tolerance: int = 64 << 20
    tolerance_ms: int = 1000
    slices: tuple[int, int] = (5, 1000)  # ms: what users may ask for


@dataclass(frozen=True, slots=True)
class Plan:
    file: str
    cluster: Cluster
    types: Mapping[str, VgpuType]
    nodes: tuple[NodeSet, ...]
    workloads: tuple[tuple[str, int], ...]  # name, slice in ms
    bursts: tuple[Burst, ...]
