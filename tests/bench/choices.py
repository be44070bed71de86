"""Who would choose which slots: slurm-vgpu, and Slurm alone as it does before and since 24.05.

A machine's GPUs have SLOTS slots each; slot i is on GPU i modulo the number of GPUs, as the
generator deals them out. Slurm takes the first free slot; where links are known it sorts the others
by the NVLinks between their GPU and that of the first: most first up to 23.11, fewest first from
24.05 on (``--gres``). Without links it takes the next free slots. Ranks follow the slots.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pysched.placement import Request, patterns, place
from pysched.topology import Topology

SLOTS = 4


@dataclass(frozen=True)
class Free:
    """The free slots of a machine, in their order."""

    topology: Topology
    slots: list[int]

    def gpu(self, slot: int) -> int:
        return slot % len(self.topology)

    def gpus(self) -> Counter[int]:
        """GPU -> free slots."""
        return Counter(map(self.gpu, self.slots))

    def links(self, slot: int) -> int:
        """NVLinks to the GPU of the first free slot."""
        first, gpu = self.gpu(self.slots[0]), self.gpu(slot)
        return 0 if gpu == first else self.topology.link(first, gpu).nvlinks


Chooser = Callable[[Free, int, random.Random], Sequence[int]]
"""The GPU of each rank."""


def slurm_vgpu(free: Free, count: int, _: random.Random) -> Sequence[int]:
    request = Request(patterns.matrix("ring", count), ("",) * count, "ring")
    counts = free.gpus()
    slots = {gpu: {"": number} for gpu, number in counts.items()}
    load = {gpu: 1 - number / SLOTS for gpu, number in counts.items()}
    return place(free.topology, slots, request, load).gpus


def slurm_23_11(free: Free, count: int, _: random.Random) -> Sequence[int]:
    first, *others = free.slots
    others.sort(key=lambda slot: (-free.links(slot), slot))
    return [free.gpu(slot) for slot in sorted([first, *others[: count - 1]])]


def slurm_24_05(free: Free, count: int, _: random.Random) -> Sequence[int]:
    first, *others = free.slots
    others.sort(key=lambda slot: (free.links(slot), slot))
    return [free.gpu(slot) for slot in sorted([first, *others[: count - 1]])]


def first_fit(free: Free, count: int, _: random.Random) -> Sequence[int]:
    return [free.gpu(slot) for slot in free.slots[:count]]


def at_random(free: Free, count: int, rng: random.Random) -> Sequence[int]:
    return [free.gpu(slot) for slot in rng.sample(free.slots, count)]


CHOOSERS: Mapping[str, Chooser] = {
    "slurm-vgpu": slurm_vgpu,
    "Slurm to 23.11": slurm_23_11,
    "Slurm from 24.05": slurm_24_05,
    "first fit": first_fit,
    "random": at_random,
}


def ring(topology: Topology, order: Sequence[int]) -> float:
    """GB/s of a ring all-reduce: its slowest hop.

    0 where two ranks sit on one GPU: communication libraries refuse that.
    """
    if len(set(order)) < len(order):
        return 0.0
    return min(topology.bandwidth(order[at - 1], order[at]) for at in range(len(order)))


def half_busy(topology: Topology, count: int, rng: random.Random, slots: int = SLOTS) -> Free:
    """A machine of which each slot is busy with probability one half, until ``count`` GPUs do."""
    while True:
        free = [slot for slot in range(slots * len(topology)) if rng.random() < 0.5]
        found = Free(topology, free)
        if len(found.gpus()) >= count:
            return found
