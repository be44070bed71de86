"""What is asked of the placement engine, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from pysched.placement.patterns import Matrix


class Affinity(Enum):
    """What a step demands of its GPUs (--vgpu-affinity).

    The engine gives every step the best links it can; only the hard kinds narrow the choice. The
    difference between the other two is which nodes are preferred at submit.
    """

    NONE = "none"
    PREFER_NVLINK = "prefer_nvlink"
    REQUIRE_NVLINK = "require_nvlink"
    SAME_NUMA = "same_numa"

    @property
    def hard(self) -> bool:
        """Whether a placement without it is refused."""
        return self in (Affinity.REQUIRE_NVLINK, Affinity.SAME_NUMA)


class Policy(Enum):
    """Where work goes when links do not decide: to the emptiest GPUs or to the fullest."""

    SPREAD = "spread"
    PACK = "pack"


class PlacementError(Exception):
    """One sentence: why these free slots cannot carry the request."""


Free = Mapping[int, Mapping[str, int]]
"""Free slots: GPU index -> type -> count."""


@dataclass(frozen=True)
class Request:
    """N vGPUs for ranks 0 to N-1, each on a GPU of its own.

    ``demand`` is the communication matrix; ``types`` names the slot type of each rank; ``cpus``
    are the CPUs that the step has (empty: not known); ``keep`` are GPUs that must be among the
    chosen ones, because slots of the job are bound there already.
    """

    demand: Matrix
    types: tuple[str, ...]
    pattern: str = "matrix"
    affinity: Affinity = Affinity.PREFER_NVLINK
    policy: Policy = Policy.SPREAD
    cpus: frozenset[int] = frozenset()
    keep: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if not self.types or len(self.types) != len(self.demand):
            raise ValueError(f"{len(self.types)} slots for {len(self.demand)} ranks")

    @property
    def ranks(self) -> int:
        return len(self.types)


@dataclass(frozen=True)
class Placement:
    """An answer. ``gpus`` are indices of the topology in rank order."""

    gpus: tuple[int, ...]
    bottleneck_gbps: float | None
    """Of the pair that limits the pattern; None if no pair talks."""
    sum_cost: float
    """Demand over bandwidth, summed over the pairs (s/GB)."""
    away: int
    """GPUs that are not next to the step's CPUs."""
    load: float
    """Mean share of the chosen GPUs' slots that others hold."""
    lost_gbps: float
    """Link capacity between free slots that this choice takes from later steps."""
    allreduce_gbps: float | None
    """Predicted bus bandwidth of one ring through all ranks; None for a single rank."""
    optimal: bool = field(default=True)
    """Proven best, not only the best found."""
    why: str = ""
