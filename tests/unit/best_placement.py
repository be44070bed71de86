"""Placement by trying everything: what the engine's answers are compared with."""

from collections.abc import Callable
from functools import lru_cache
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray

from pysched.placement import Affinity, Policy, Request
from pysched.placement.request import Free
from pysched.topology import Topology
from pysched.topology.model import numbers

CLOSE = 1e-6
MOST = 100_000


@lru_cache(maxsize=64)
def mappings(gpus: int, ranks: int) -> NDArray[np.int64]:
    return np.array(list(permutations(range(gpus), ranks)), dtype=np.int64).reshape(-1, ranks)


def candidates(topology: Topology, free: Free, request: Request) -> list[int]:
    wanted = set(request.types)
    return [
        gpu
        for gpu in range(len(topology))
        if gpu in request.keep or any(free.get(gpu, {}).get(kind) for kind in wanted)
    ]


class Best:
    """All mappings of a request, narrowed down cost by cost to the best: ``at``."""

    def __init__(
        self, topology: Topology, free: Free, request: Request, load: dict[int, float]
    ) -> None:
        self.topology, self.free, self.request = topology, free, request
        self.gpus = candidates(topology, free, request)
        every = np.array(self.gpus, dtype=np.int64)[mappings(len(self.gpus), request.ranks)]
        self.at = every[self.allowed(every)]
        if not len(self.at):
            return
        sign = -1 if request.policy is Policy.PACK else 1
        worst, total = self.pairs()
        self.narrow([worst, total])
        self.narrow([self.summed(self.is_away)])
        self.narrow([self.summed(lambda gpu: sign * round(load[gpu] * 63))])
        sets = {frozenset(row) for row in self.at.tolist()}
        loss = {chosen: self.loss(chosen) for chosen in sets}
        losses = np.array([loss[frozenset(row)] for row in self.at.tolist()])
        self.lost = float(losses.min())
        self.narrow([losses])

    def __len__(self) -> int:
        return len(self.at)

    def narrow(self, costs: list[NDArray[np.float64]]) -> None:
        """Keep the mappings with the least first cost, of those the ones with the least second."""
        alive = np.arange(len(self.at))
        for cost in costs:
            least = float(cost[alive].min())
            alive = alive[cost[alive] <= least + CLOSE * abs(least) + 1e-9]
        self.at = self.at[alive]

    def allowed(self, every: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which mappings have a slot for each rank, keep what must stay, meet the affinity."""
        request, size = self.request, range(len(self.topology))
        fits = np.ones(len(every), dtype=bool)
        for rank, kind in enumerate(request.types):
            may = [gpu in request.keep or self.free.get(gpu, {}).get(kind, 0) > 0 for gpu in size]
            fits &= np.array(may, dtype=bool)[every[:, rank]]
        for gpu in request.keep:
            fits &= (every == gpu).any(axis=1)
        meet = np.array([[a == b or self.may_meet(a, b) for b in size] for a in size])
        for one, other in combinations(range(request.ranks), 2):
            fits &= meet[every[:, one], every[:, other]]
        return fits

    def may_meet(self, one: int, other: int) -> bool:
        if self.request.affinity is Affinity.REQUIRE_NVLINK:
            return self.topology.link(one, other).nvlinks > 0
        if self.request.affinity is Affinity.SAME_NUMA:
            gpus = self.topology.gpus
            where = gpus[one].numa or gpus[one].cpus
            return bool(where) and where == (gpus[other].numa or gpus[other].cpus)
        return True

    def pairs(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Worst and summed demand over bandwidth of each mapping."""
        size = len(self.topology)
        table = np.full((size, size), np.inf)
        for one, other in combinations(range(size), 2):
            table[one, other] = table[other, one] = self.topology.bandwidth(one, other)
        worst, total = np.zeros(len(self.at)), np.zeros(len(self.at))
        for one, other in combinations(range(self.request.ranks), 2):
            cost = self.request.demand[one][other] / table[self.at[:, one], self.at[:, other]]
            worst, total = np.maximum(worst, cost), total + cost
        return worst, total

    def summed(self, value: Callable[[int], float]) -> NDArray[np.float64]:
        of = np.array([value(gpu) for gpu in range(len(self.topology))], dtype=np.float64)
        return np.asarray(of[self.at].sum(axis=1))

    def is_away(self, gpu: int) -> float:
        near = numbers(self.topology.gpus[gpu].cpus)
        return float(bool(self.request.cpus and near and not near & self.request.cpus))

    def loss(self, row: frozenset[int]) -> float:
        """Link capacity between free slots before, less after."""
        kinds = set(self.request.types)
        before = {
            gpu: max(1, sum(self.free.get(gpu, {}).get(kind, 0) for kind in kinds))
            for gpu in self.gpus
        }
        after = {gpu: count - (gpu in row) for gpu, count in before.items()}
        return sum(
            self.topology.bandwidth(one, other)
            * (min(before[one], before[other]) - min(after[one], after[other]))
            for one, other in combinations(self.gpus, 2)
        )
