"""A node as its hardware is: what a first plan is made from, and what a plan is checked against."""

from dataclasses import dataclass, field

from gres.plan import Nvlink


@dataclass(frozen=True)
class Gpu:
    """One GPU. None and empty values: the source does not say."""

    minor: int
    product: str
    uuid: str = ""
    memory: int = 0
    reserved: int | None = None
    sms: int | None = None
    cpus: frozenset[int] = frozenset()
    mig: bool = False
    instances: tuple[tuple[str, int], ...] = ()  # (profile, GPU instance id)
    compute_mode: str = ""  # default, exclusive-process, prohibited
    persistence: bool | None = None


@dataclass(frozen=True)
class Cpus:
    """The CPUs of a node: which core, in Slurm's numbering, each of Linux' CPUs belongs to."""

    core_of: dict[int, int]
    sockets: int = 1

    def cores(self, cpus: frozenset[int]) -> tuple[int, ...] | None:
        """The cores of these CPUs, or None where some of them are not known."""
        if not cpus or not cpus <= self.core_of.keys():
            return None
        return tuple(sorted({self.core_of[cpu] for cpu in cpus}))


@dataclass(frozen=True)
class Machine:
    node: str
    source: str  # where this is known from, for people
    gpus: tuple[Gpu, ...]
    nvlink: Nvlink = field(default_factory=Nvlink)
    driver: str = ""
    cpus: Cpus | None = None
    slurm: dict[str, str] = field(default_factory=dict)  # of the NodeName line, as slurmd -C says
    mps: str = ""  # a process of MPS that runs on the node


class SourceError(Exception):
    """One sentence: what cannot be read, where, and why."""
