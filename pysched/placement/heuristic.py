"""Above what can always be proven: Frank-Wolfe with the Hungarian method, then exchanges.

The pair part is a quadratic assignment. Each start walks through doubly stochastic matrices (FAQ:
the gradient's best assignment by scipy's Hungarian method, then the best point on the way there),
is rounded to a mapping, and improved by the best single exchange (two ranks, or a rank and an
unused GPU) until none helps. All starts are improved at once. Starts are fixed, so that equal
questions get equal answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import networkx
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from pysched.placement.exact import IMPOSSIBLE, Ints, Problem, within

STEPS = 16
WALKS = 8
SHUFFLES = 64
MOST_KNOWN = 8
ROUNDS = 200
SEED = 20

VIOLATION = float(IMPOSSIBLE)
NOISE = 1024.0
"""Gains below are rounding of numbers as large as VIOLATION."""

Floats = NDArray[np.float64]


def solve(
    problem: Problem, scale: int, known: Sequence[tuple[int, ...]], budget: int
) -> list[tuple[int, ...]]:
    """The best mapping found for (worst pair, scale x sum of pairs + singles); none if impossible.

    ``known`` mappings are starts as well; ``budget`` is for one more pass of the exact search,
    within the limit on pairs that the climb has found.
    """
    found: list[tuple[int, ...]] = []
    for group in _groups(problem):
        inside = [mapping for mapping in known[:MOST_KNOWN] if set(mapping) <= set(group.tolist())]
        found += _lower(_Climb(problem, scale, group, inside), budget)
    valued = sorted((problem.value(mapping, scale), mapping) for mapping in found)
    return [mapping for _, mapping in valued[:1]]


def _lower(climb: "_Climb", budget: int) -> list[tuple[int, ...]]:
    """Halve the range of limits on the worst pair, then minimise the sum within the least.

    How many pairs exceed a limit guides exchanges better than the worst pair itself, of which most
    exchanges change nothing.
    """
    best = climb.within(int(climb.levels[-1]))
    low, high = 0, len(climb.levels) - 1
    while best and low < high:
        worst = min(climb.problem.value(mapping, climb.scale)[0] for mapping in best)
        high = min(high, int(np.searchsorted(climb.levels, worst)))
        middle = (low + high) // 2
        climb.known = best[:MOST_KNOWN]
        better = climb.within(int(climb.levels[middle]))
        best, low, high = (better, low, middle) if better else (best, middle + 1, high)
    if not best:
        return best
    limit = int(climb.levels[high])
    climb.known = best[:MOST_KNOWN] + within(climb.problem, limit, climb.scale, budget)[:MOST_KNOWN]
    return climb.within(limit)


def _groups(problem: Problem) -> list[Ints]:
    """The maximal sets of GPUs of which any two may be chosen together, if large enough."""
    graph = networkx.from_numpy_array(problem.together & ~np.eye(problem.gpus, dtype=bool))
    groups = [np.array(sorted(clique)) for clique in networkx.find_cliques(graph)]
    large = [group for group in groups if len(group) >= problem.ranks]
    return sorted(large, key=lambda group: group.tolist())


@dataclass
class _Climb:
    """The starts within one group of GPUs. A row of ``at`` maps ranks, real ones first, to GPUs."""

    problem: Problem
    scale: int
    group: Ints
    known: list[tuple[int, ...]]
    limit: int = 0

    def within(self, limit: int) -> list[tuple[int, ...]]:
        """The mappings found that forbid nothing and keep every pair to the limit, best first."""
        self.limit = limit
        at = self.improve(np.array(self.starts + [self.filled(mapping) for mapping in self.known]))
        values = self.values(at)
        order = [row for row in np.argsort(values, kind="stable") if values[row] < VIOLATION]
        rows = self.group[at[order, : self.problem.ranks]].tolist()
        return list(dict.fromkeys(map(tuple, rows)))

    # --- starts -----------------------------------------------------------------------------

    @cached_property
    def starts(self) -> list[Ints]:
        random, size = np.random.default_rng(SEED), len(self.group)
        flat = np.full((size, size), 1 / size)
        starts = [np.arange(size), self.frank_wolfe(flat)]
        for _ in range(WALKS):
            noise = np.eye(size)[random.permutation(size)]
            starts.append(self.frank_wolfe((flat + noise) / 2))
        return starts + [random.permutation(size) for _ in range(SHUFFLES)]

    def filled(self, mapping: tuple[int, ...]) -> Ints:
        """A known mapping as positions in the group, with the GPUs that it leaves behind it."""
        rest = [gpu for gpu in self.group.tolist() if gpu not in mapping]
        return np.searchsorted(self.group, [*mapping, *rest])

    def frank_wolfe(self, point: Floats) -> Ints:
        """Walk from a doubly stochastic matrix to cheap assignments; return the nearest one."""
        demand, distance, single = self.relaxed
        for _ in range(STEPS):
            gradient = 2 * demand @ point @ distance + single
            rows, columns = linear_sum_assignment(gradient)
            towards = -point
            towards[rows, columns] += 1
            slope = float((gradient * towards).sum())
            bend = float((demand @ towards @ distance * towards).sum())
            step = 1.0 if bend <= 0 else min(1.0, -slope / (2 * bend))
            if slope >= 0 or step <= 0:
                break
            point = point + step * towards
        return np.asarray(linear_sum_assignment(-point)[1])

    @cached_property
    def relaxed(self) -> tuple[Floats, Floats, Floats]:
        """Demand, distance and single costs for the walk; what is forbidden costs very much."""
        demand: Floats = self.full_demand.astype(np.float64)
        distance: Floats = self.distance * np.float64(self.scale)
        most = 4 * float(demand.max()) * float(distance.max()) + float(self.scale)
        return demand, distance, np.minimum(self.full_single, most)

    # --- exchanges --------------------------------------------------------------------------

    def improve(self, at: Ints) -> Ints:
        """Take each row's best exchange until no row has one that helps."""
        one, other = self.exchanges
        active = np.arange(len(at))
        for _ in range(ROUNDS):
            gain = self.gains(at[active])
            choice = gain.argmax(axis=1)
            better = gain[np.arange(len(active)), choice] > NOISE
            active, choice = active[better], choice[better]
            if not len(active):
                break
            left, right = one[choice], other[choice]
            at[active, left], at[active, right] = at[active, right], at[active, left]
        return at

    def gains(self, at: Ints) -> Floats:
        """Row x exchange: by how much the exchange lowers the row's value."""
        one, other = self.exchanges
        moved = self.moved(at)
        here = np.take_along_axis(moved, at[:, :, None], axis=2)[:, :, 0]
        rows = np.arange(len(at))[:, None]
        there = moved[rows, one, at[:, other]] + moved[rows, other, at[:, one]]
        # What the two pay to each other is lost from both sides of the sum, and does not change.
        between = self.priced(
            self.full_demand[one, other] * self.distance[at[:, one], at[:, other]]
        )
        return np.asarray(here[:, one] + here[:, other] - there - 2 * between)

    def moved(self, at: Ints) -> Floats:
        """Row x rank x GPU: what the rank would pay there if all others stayed."""
        rank, peer, demand = self.talks
        size = len(self.group)
        paid = np.tile(self.full_single, (len(at), 1, 1))
        if len(rank):
            cost = self.priced(demand[:, None] * self.distance[at[:, peer]])
            first = np.flatnonzero(np.diff(rank, prepend=-1))
            paid[:, rank[first]] += np.add.reduceat(cost, first, axis=1)
        return paid.reshape(len(at), size, size)

    def priced(self, cost: Ints) -> Floats:
        above: Floats = np.where(cost > self.limit, VIOLATION, 0.0)
        return above + cost * np.float64(self.scale)

    def values(self, at: Ints) -> Floats:
        """A number per mapping that sorts them: violations, then scale x sum of pairs + singles."""
        rank, peer, demand = self.talks
        pairs = self.priced(demand * self.distance[at[:, rank], at[:, peer]]).sum(axis=1) / 2
        single = self.full_single[np.arange(at.shape[1]), at].sum(axis=1)
        return np.asarray(pairs + single)

    @cached_property
    def exchanges(self) -> tuple[Ints, Ints]:
        size = len(self.group)
        pairs = [pair for pair in combinations(range(size), 2) if pair[0] < self.problem.ranks]
        return np.array([one for one, _ in pairs]), np.array([other for _, other in pairs])

    @cached_property
    def distance(self) -> Ints:
        return self.problem.distance[np.ix_(self.group, self.group)]

    @cached_property
    def full_demand(self) -> Ints:
        """The demand of all ranks, idle ones last."""
        demand = np.zeros_like(self.distance)
        demand[: self.problem.ranks, : self.problem.ranks] = self.problem.demand
        return demand

    @cached_property
    def full_single(self) -> Floats:
        """What ranks cost by themselves; an idle one violates a GPU that must be chosen."""
        single = self.problem.single[:, self.group]
        full = np.zeros(self.distance.shape)
        full[: self.problem.ranks] = np.where(single >= IMPOSSIBLE, VIOLATION, single)
        full[self.problem.ranks :] = VIOLATION * (self.problem.keep >> self.group & 1)
        return full

    @cached_property
    def talks(self) -> tuple[Ints, Ints, Ints]:
        """Both ways of each pair that talks, by rank: rank, peer, demand."""
        rank, peer = np.nonzero(self.full_demand)
        return rank, peer, self.full_demand[rank, peer]

    @cached_property
    def levels(self) -> Ints:
        """What a pair can cost, rising."""
        demands = np.unique(self.talks[2]) if len(self.talks[2]) else np.zeros(1, dtype=np.int64)
        return np.unique(np.multiply.outer(demands, np.unique(self.distance)))
