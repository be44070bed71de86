"""Which places for vGPUs the GPUs of a node have, and which of them are taken.

vgpu.conf gives each GPU as many places of a type as slots of that type are at home there; a slot
may be bound to a free place of its type on any GPU.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pysched.vgpuconf import Node
from pysched.vgpud_client import Binding

Places = Mapping[int, Mapping[str, int]]
"""Minor number -> type -> count."""


@dataclass(frozen=True)
class Occupancy:
    places: Places
    taken: Places

    def free(self) -> dict[int, dict[str, int]]:
        return {
            minor: {
                kind: max(0, count - self.taken.get(minor, {}).get(kind, 0))
                for kind, count in kinds.items()
            }
            for minor, kinds in self.places.items()
        }

    def share_taken(self, minor: int) -> float:
        """How much of the GPU's places is taken, 0 to 1."""
        places = sum(self.places.get(minor, {}).values())
        return min(1.0, sum(self.taken.get(minor, {}).values()) / places) if places else 0.0


def of(node: Node, bindings: Iterable[Binding]) -> Occupancy:
    """What vgpu.conf gives the node, and what vgpud has bound of it."""
    places: dict[int, Counter[str]] = {gpu.minor: Counter() for gpu in node.gpus}
    for slot in node.slots:
        places[slot.gpu.minor][slot.type.name] += 1
    taken: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for binding in bindings:
        taken[binding.vgpu.gpu][binding.vgpu.type] += binding.vgpu.slots
    return Occupancy(places, taken)
