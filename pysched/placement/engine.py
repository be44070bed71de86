"""The placement engine: from a topology, free slots and a request to GPUs in rank order.

A mapping's cost is compared in this order: the slowest pair (demand over bandwidth), the sum over
all pairs, GPUs away from the step's CPUs, load, and the link capacity that is taken from others.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import combinations

import numpy as np

from pysched.placement import exact, explain, patterns
from pysched.placement.exact import Bools, Ints, Problem
from pysched.placement.request import (
    Affinity,
    Free,
    Placement,
    PlacementError,
    Policy,
    Request,
)
from pysched.topology.model import Topology, numbers

MOST_EXACT = 8
"""Ranks up to which the answer is always proven."""

BUDGET = 20_000
"""Partial mappings that a proof may take above that; then the heuristic answers."""

DISTANCE_UNIT = 10**8
LEAST_GBPS = 1.0
LOAD_STEPS = 63
AWAY = 1 << 10
SCALE = 1 << 15
"""One unit of pair cost outweighs all that single GPUs can differ by: 31 x (AWAY + LOAD_STEPS)."""

Frozen = tuple[tuple[int, tuple[tuple[str, int], ...]], ...]


def place(
    topology: Topology, free: Free, request: Request, load: Mapping[int, float] | None = None
) -> Placement:
    """Choose GPUs for a request. Raises PlacementError where the free slots cannot carry it.

    ``load`` says for each GPU which share of it others hold (0 to 1). Equal questions are answered
    from memory.
    """
    frozen = tuple(
        (gpu, tuple(sorted((name, count) for name, count in types.items() if count > 0)))
        for gpu, types in sorted(free.items())
    )
    loads = tuple(round((load or {}).get(gpu, 0.0), 3) for gpu in range(len(topology)))
    answer = _place(topology, frozen, request, loads)
    if isinstance(answer, str):
        raise PlacementError(answer)
    return answer


@lru_cache(maxsize=4096)
def _place(
    topology: Topology, frozen: Frozen, request: Request, loads: tuple[float, ...]
) -> Placement | str:
    """The answer, or the reason why there is none: both are worth remembering."""
    try:
        return _Question(topology, frozen, request, loads).answer()
    except PlacementError as error:
        return str(error)


class _Question:
    """One request on its way to an answer. Works on candidates: GPUs with a free slot of use."""

    def __init__(
        self, topology: Topology, frozen: Frozen, request: Request, loads: tuple[float, ...]
    ) -> None:
        self.topology, self.request = topology, request
        self.free = {gpu: dict(types) for gpu, types in frozen}
        wanted = set(request.types)
        self.gpus = [
            gpu
            for gpu in range(len(topology))
            if gpu in request.keep or wanted & self.free.get(gpu, {}).keys()
        ]
        self.loads = [loads[gpu] for gpu in self.gpus]
        self.bandwidth = self.bandwidths()

    def answer(self) -> Placement:
        request = self.request
        if len(self.gpus) < request.ranks:
            raise PlacementError(
                f"{request.ranks} vGPUs need as many different GPUs with a free slot, "
                f"there are {len(self.gpus)}"
            )
        problem, uniform = self.problem(), self.uniform()
        mappings, optimal = solve(problem, always=request.ranks <= MOST_EXACT or uniform)
        if not mappings:
            raise PlacementError(explain.impossible(self.topology, self.gpus, request))
        losses = self.losses(mappings)
        best = int(np.argmin(losses))
        return self.placement(mappings[best], int(losses[best]), uniform, optimal)

    # --- the problem in whole numbers -----------------------------------------------------------

    def bandwidths(self) -> "np.typing.NDArray[np.float64]":
        table = np.zeros((len(self.gpus), len(self.gpus)))
        for (i, one), (j, other) in combinations(enumerate(self.gpus), 2):
            table[i, j] = table[j, i] = max(self.topology.bandwidth(one, other), LEAST_GBPS)
        return table

    def uniform(self) -> bool:
        """Whether every pair of candidates is linked alike: links give nothing to choose."""
        between = self.bandwidth[~np.eye(len(self.gpus), dtype=bool)]
        return len(np.unique(between)) <= 1

    def problem(self) -> Problem:
        request, count = self.request, len(self.gpus)
        with np.errstate(divide="ignore"):
            distance = np.where(np.eye(count, dtype=bool), 0.0, DISTANCE_UNIT / self.bandwidth)
        return Problem(
            demand=patterns.matrix("none", request.ranks) if self.uniform() else request.demand,
            distance=np.rint(distance).astype(np.int64),
            single=self.singles(),
            together=self.together(),
            keep=sum(1 << at for at, gpu in enumerate(self.gpus) if gpu in request.keep),
            tags=tuple(self.free_count(gpu) for gpu in self.gpus),
        )

    def singles(self) -> Ints:
        """Rank x candidate: whether it may be there, and what the GPU itself costs."""
        steps = np.rint(np.array(self.loads) * LOAD_STEPS).astype(np.int64)
        if self.request.policy is Policy.PACK:
            steps = LOAD_STEPS - steps
        cost = steps + AWAY * np.array([self.away(gpu) for gpu in self.gpus])
        may = np.array(
            [
                [gpu in self.request.keep or kind in self.free[gpu] for gpu in self.gpus]
                for kind in self.request.types
            ]
        )
        return np.where(may, cost, exact.IMPOSSIBLE)

    def away(self, gpu: int) -> bool:
        """Whether the GPU is known not to be next to the step's CPUs."""
        near = numbers(self.topology.gpus[gpu].cpus)
        return bool(self.request.cpus and near and not near & self.request.cpus)

    def together(self) -> Bools:
        """Candidate x candidate: whether the request lets both be chosen."""
        allowed = np.ones((len(self.gpus), len(self.gpus)), dtype=bool)
        for (i, one), (j, other) in combinations(enumerate(self.gpus), 2):
            allowed[i, j] = allowed[j, i] = may_meet(
                self.topology, one, other, self.request.affinity
            )
        return allowed

    # --- what is left, and the answer -----------------------------------------------------------

    def free_count(self, gpu: int) -> int:
        """Free slots of the requested types; at least the one that is taken."""
        types = self.free.get(gpu, {})
        return max(1, sum(types.get(kind, 0) for kind in set(self.request.types)))

    def losses(self, mappings: list[tuple[int, ...]]) -> Ints:
        """Per mapping: link capacity between free slots that it takes, in tenths of GB/s.

        Two GPUs can serve as many linked pairs as the one with fewer free slots has; so well
        linked GPUs are kept together, and one whose peers are full goes first.
        """
        count = len(self.gpus)
        free = np.array([self.free_count(gpu) for gpu in self.gpus])
        capacity = np.rint(self.bandwidth * 10).astype(np.int64)
        pairs = np.minimum(free[:, None], free)
        one = capacity * (pairs - np.minimum(free[:, None] - 1, free))
        both = capacity * (pairs - np.minimum(free[:, None] - 1, free - 1))
        chosen = np.zeros((len(mappings), count), dtype=np.int64)
        np.put_along_axis(chosen, np.array(mappings), 1, axis=1)
        # A pair of which both ends are chosen was counted once from each end in the linear part.
        inside = both - one - one.T
        return np.asarray(chosen @ one.sum(axis=1) + (chosen @ inside * chosen).sum(axis=1) // 2)

    def placement(
        self, mapping: tuple[int, ...], lost: int, uniform: bool, optimal: bool
    ) -> Placement:
        demand, ranks = self.request.demand, range(self.request.ranks)
        costs = {
            (one, other): demand[one][other] / self.bandwidth[mapping[one], mapping[other]]
            for one, other in combinations(ranks, 2)
            if demand[one][other]
        }
        slowest = max(costs, key=lambda pair: costs[pair], default=None)
        gpus = tuple(self.gpus[at] for at in mapping)
        found = Placement(
            gpus=gpus,
            bottleneck_gbps=None
            if slowest is None
            else float(self.bandwidth[mapping[slowest[0]], mapping[slowest[1]]]),
            sum_cost=float(sum(costs.values())),
            away=sum(map(self.away, gpus)),
            load=sum(self.loads[at] for at in mapping) / len(mapping),
            lost_gbps=lost / 10,
            allreduce_gbps=self.allreduce(mapping, slowest),
            optimal=optimal,
        )
        return explain.explained(found, self.topology, self.gpus, self.request, uniform)

    def allreduce(self, mapping: tuple[int, ...], slowest: tuple[int, int] | None) -> float | None:
        """Predicted bus bandwidth of a ring all-reduce; known where a ring was asked for."""
        if slowest and self.request.demand == patterns.matrix("ring", self.request.ranks):
            return float(self.bandwidth[mapping[slowest[0]], mapping[slowest[1]]])
        return allreduce(self.bandwidth[np.ix_(mapping, mapping)])


def solve(problem: Problem, always: bool) -> tuple[list[tuple[int, ...]], bool]:
    """The best mappings, or the best found; and whether they are proven to be the best."""
    solution = exact.solve(problem, SCALE, None if always else BUDGET)
    if solution.proven:
        return solution.mappings, True
    try:
        from pysched.placement import heuristic  # noqa: PLC0415 (scipy loads slowly, few need it)
    except ModuleNotFoundError as error:  # Debian's package only recommends SciPy
        if solution.mappings:
            return solution.mappings, False
        raise PlacementError(f"{error.name} is not installed: so many ranks need it") from None
    return heuristic.solve(problem, SCALE, solution.mappings, BUDGET), False


def may_meet(topology: Topology, one: int, other: int, affinity: Affinity) -> bool:
    """Whether two GPUs may serve one step under a hard affinity."""
    if affinity is Affinity.REQUIRE_NVLINK:
        return topology.link(one, other).nvlinks > 0
    if affinity is Affinity.SAME_NUMA:
        domain = topology.gpus[one].domain
        return bool(domain) and domain == topology.gpus[other].domain
    return True


def allreduce(bandwidth: "np.typing.NDArray[np.float64]") -> float | None:
    """Predicted bus bandwidth of a ring all-reduce: the slowest hop of the best ring.

    One ring through all ranks, as fast as its slowest hop. A library that runs several rings at
    once over a mesh can do better.
    """
    ranks = len(bandwidth)
    if ranks < 2:
        return None
    with np.errstate(divide="ignore"):
        distance = np.where(np.eye(ranks, dtype=bool), 0.0, DISTANCE_UNIT / bandwidth)
    problem = Problem(
        demand=patterns.matrix("ring", ranks),
        distance=np.rint(distance).astype(np.int64),
        single=np.zeros((ranks, ranks), dtype=np.int64),
        together=np.ones((ranks, ranks), dtype=bool),
    )
    worst, _ = exact.bottleneck(problem, None if ranks <= MOST_EXACT else BUDGET)
    return float(bandwidth.flat[np.abs(problem.distance - (worst or 0)).argmin()])
