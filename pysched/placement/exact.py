"""The exact solver: branch and bound, level by level over blocks of partial mappings.

Ranks are placed one after another. A block holds many partial mappings as arrays, so that one step
of numpy extends all of them. Four things keep blocks small:

- the bound: a mapping cannot cost less than what it has plus, for each rank still to come, the
  cheapest GPU left, with half of the cheapest that the rank can pay to other ranks to come;
- merging: two partial mappings that use the same GPUs, and agree on the ranks that later ranks
  still talk to, have the same future, so only the cheaper survives;
- symmetry of the pattern: of ranks that can be exchanged, the first gets the lowest GPU;
- symmetry of the machine: of GPUs that cannot be told apart, the first is used first.

Both symmetries keep the lexicographically first of equal mappings, so they do not get in each
other's way. Whatever is dropped has an equal or better mapping among what is kept.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from pysched.placement.patterns import Matrix

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

IMPOSSIBLE = 1 << 58
"""A cost that no mapping has; sixteen of them still fit into 64 bits."""

GPU_BITS = 5
KEY_BITS = 62
CODED = KEY_BITS // GPU_BITS
BLOCK = 1 << 13
BEAM = 96
WIDE_BEAM = 512
PROBE = 1 << 9
MOST_SYMMETRIC = 16
"""Ranks up to which looking for symmetries of the pattern takes no time to speak of."""


@dataclass(frozen=True)
class Problem:
    """Map ranks to GPUs at the least cost: a pair costs demand x distance, a single one ``single``.

    All numbers are whole, so that equal costs are equal.
    """

    demand: Matrix
    distance: Ints
    """GPU x GPU: what a unit of demand costs."""
    single: Ints
    """Rank x GPU; IMPOSSIBLE where a rank must not be."""
    together: Bools
    """GPU x GPU: may both be chosen."""
    keep: int = 0
    """Bit mask of GPUs that must be chosen."""
    tags: tuple[object, ...] = ()
    """One per GPU, if given: GPUs with different tags are never taken for equal."""

    @property
    def ranks(self) -> int:
        return len(self.demand)

    @cached_property
    def row_classes(self) -> tuple[int, ...]:
        """Equal numbers for ranks that cost the same everywhere."""
        seen: dict[bytes, int] = {}
        return tuple(seen.setdefault(row.tobytes(), len(seen)) for row in self.single)

    @cached_property
    def apart(self) -> Ints:
        """Per GPU: bit mask of those that must not be chosen beside it."""
        weights = 1 << np.arange(self.gpus, dtype=np.int64)
        return np.asarray((~self.together & ~np.eye(self.gpus, dtype=bool)) @ weights)

    @cached_property
    def lower_twins(self) -> Ints:
        """Per GPU: bit mask of those with a lower number that cannot be told from it."""
        twins = np.zeros(self.gpus, dtype=np.int64)
        for gpu in range(self.gpus):
            for lower in range(gpu):
                if self.alike(lower, gpu):
                    twins[gpu] |= 1 << lower
        return twins

    def alike(self, one: int, other: int) -> bool:
        """Whether exchanging two GPUs changes nothing."""
        tags = self.tags or (None,) * self.gpus
        if tags[one] != tags[other] or (self.keep >> one ^ self.keep >> other) & 1:
            return False
        swap = np.arange(self.gpus)
        swap[[one, other]] = other, one
        return bool(
            np.array_equal(self.single[:, one], self.single[:, other])
            and np.array_equal(self.distance[one][swap], self.distance[other])
            and np.array_equal(self.together[one][swap], self.together[other])
        )

    @property
    def gpus(self) -> int:
        return int(self.single.shape[1])

    def value(self, gpus: tuple[int, ...], scale: int) -> tuple[int, int]:
        """What a mapping costs: the worst pair, and scale x sum of pairs + singles."""
        pairs = [
            self.demand[one][other] * int(self.distance[gpus[one], gpus[other]])
            for one in range(self.ranks)
            for other in range(one)
        ]
        single = sum(int(self.single[rank, gpu]) for rank, gpu in enumerate(gpus))
        return max(pairs, default=0), scale * sum(pairs) + single


@dataclass(frozen=True)
class Solution:
    """All the best sets of GPUs, each in its best order; or the best found if not ``proven``."""

    mappings: list[tuple[int, ...]]
    proven: bool


def solve(problem: Problem, scale: int = 1, budget: int | None = None) -> Solution:
    """Minimise (worst pair, scale x sum of pairs + singles). No mappings: none is possible.

    ``budget`` is how many partial mappings each part of the search may extend.
    """
    worst, proven = bottleneck(problem, budget)
    if worst is None:
        return Solution([], proven)
    search = _Search(problem, worst, scale, budget)
    return Solution(search.best(), proven and not search.exhausted)


def within(problem: Problem, limit: int, scale: int, budget: int) -> list[tuple[int, ...]]:
    """The best mappings found in which no pair costs more than the limit."""
    return _Search(problem, limit, scale, budget).best()


def bottleneck(problem: Problem, budget: int | None = None) -> tuple[int | None, bool]:
    """The least cost of the worst pair that a mapping can have, and whether that is proven.

    None if no mapping is possible, or none was found.
    """
    apart = ~np.eye(problem.gpus, dtype=bool)
    demands = np.unique([0, *(demand for row in problem.demand for demand in row)])[1:]
    levels = np.unique(np.multiply.outer(demands, problem.distance[apart])).tolist() or [0]
    low, high = bisect_left(levels, _least_worst(problem)), len(levels)
    while low < high and (budget is None or budget > 0):
        middle = (low + high) // 2
        search = _Search(problem, levels[middle], None, budget)
        mapping = search.any()
        if mapping is not None:
            high = min(middle, bisect_left(levels, problem.value(mapping, 0)[0]))
        elif search.exhausted:
            break
        else:
            low = middle + 1
        budget = search.left
    return (levels[high] if high < len(levels) else None), low >= high


def _least_worst(problem: Problem) -> int:
    """What the worst pair costs at least: each rank sits somewhere, its peers on the nearest."""
    nearest = np.sort(problem.distance + np.diag([IMPOSSIBLE] * problem.gpus), axis=1)
    least = 0
    for row in problem.demand:
        busy = np.array(sorted((demand for demand in row if demand), reverse=True), dtype=np.int64)
        if 0 < len(busy) < problem.gpus:
            least = max(least, int((nearest[:, : len(busy)] * busy).max(axis=1).min()))
    return least


@dataclass(frozen=True)
class _Block:
    """Partial mappings of one depth, as parallel arrays."""

    used: Ints
    """Bit mask of GPUs."""
    at: Ints
    """Row x position: the GPU of each placed rank, in search order."""
    cost: Ints
    code: Ints
    """The GPUs of ranks 0, 1, ... as one number: decides between equals."""
    bound: Ints

    def __len__(self) -> int:
        return len(self.cost)

    def pick(self, rows: Ints | Bools | slice) -> "_Block":
        return _Block(
            self.used[rows], self.at[rows], self.cost[rows], self.code[rows], self.bound[rows]
        )


class _Search:
    """One run with a limit on each pair's cost. ``scale`` None: any mapping will do."""

    def __init__(
        self, problem: Problem, limit: int, scale: int | None, budget: int | None = None
    ) -> None:
        self.problem = problem
        self.left = budget
        self.exhausted = False
        self.any_will_do = scale is None
        self.plan = _plan(problem.demand, problem.row_classes)
        order = list(self.plan.order)
        self.demand = np.array(problem.demand, dtype=np.int64)[np.ix_(order, order)]
        impossible = np.where(problem.single >= IMPOSSIBLE, IMPOSSIBLE, 0)
        self.single = (impossible if scale is None else problem.single)[order]
        self.pairs = {
            demand: np.where(
                demand * problem.distance > limit,
                IMPOSSIBLE,
                demand * problem.distance * (scale or 0),
            )
            for demand in {int(value) for value in self.demand.flat} - {0}
        }
        self.gpu_numbers = np.arange(problem.gpus, dtype=np.int64)
        self.rest = [self.rest_bound(depth) for depth in range(problem.ranks)]
        self.upper = IMPOSSIBLE - 1
        self.found: list[_Block] = []

    def any(self) -> tuple[int, ...] | None:
        """A mapping within the limit, if one exists."""
        self.descend(self.root(), PROBE)
        return self.in_rank_order(self.found[0].at[0]) if self.found else None

    def best(self) -> list[tuple[int, ...]]:
        """All best sets: a narrow beam for an upper bound, then everything that may beat it."""
        self.descend(self.root(), BLOCK, BEAM if self.left is None else WIDE_BEAM)
        self.descend(self.root(), BLOCK)
        leaves: dict[int, tuple[int, tuple[int, ...]]] = {}
        for block in self.found:
            for row in np.flatnonzero(block.cost == self.upper):
                entry = (int(block.code[row]), self.in_rank_order(block.at[row]))
                used = int(block.used[row])
                leaves[used] = min(entry, leaves.get(used, entry))
        return [mapping for _, mapping in sorted(leaves.values())]

    def in_rank_order(self, at: Ints) -> tuple[int, ...]:
        gpus = dict(zip(self.plan.order, at.tolist(), strict=True))
        return tuple(gpus[rank] for rank in range(self.problem.ranks))

    def root(self) -> _Block:
        zero = np.zeros(1, dtype=np.int64)
        return _Block(zero, np.zeros((1, 0), dtype=np.int64), zero, zero, zero)

    def descend(self, block: _Block, size: int, beam: int | None = None) -> None:
        """Extend a block down to whole mappings, the most promising part of it first."""
        depth = block.at.shape[1]
        if depth == self.problem.ranks:
            if len(block):
                self.found.append(block)
                self.upper = min(self.upper, int(block.cost.min()))
            return
        if self.left is not None:
            self.left -= len(block)
            self.exhausted = self.left < 0
            if self.exhausted:
                return
        block = self.merge(self.extend(block, depth), depth + 1)
        if len(block) > (beam or size):
            block = block.pick(np.argsort(block.bound, kind="stable")[:beam])
        for start in range(0, len(block), size):
            part = block.pick(slice(start, start + size))
            self.descend(part.pick(part.bound <= self.upper), size, beam)
            if self.exhausted or (self.any_will_do and self.found):
                return

    def extend(self, block: _Block, depth: int) -> _Block:
        """Place the next rank everywhere it can still lead to something as good as the best."""
        if not len(block):
            return _Block(
                block.used,
                np.zeros((0, depth + 1), dtype=np.int64),
                block.cost,
                block.code,
                block.bound,
            )
        taken = (block.used[:, None] >> self.gpu_numbers & 1) * IMPOSSIBLE
        here, bound = taken, block.cost
        for position in range(self.problem.ranks - 1, depth - 1, -1):
            here = taken + (self.single[position] + self.rest[depth][position])
            for placed in np.flatnonzero(self.demand[position, :depth]):
                pair = self.pairs[int(self.demand[position, placed])]
                here = here + pair[block.at[:, placed]]
            here = np.minimum(here, IMPOSSIBLE)
            cheapest = here.min(axis=1)
            bound = bound + cheapest
        bounds = (bound - cheapest)[:, None] + here
        rows, gpus = np.nonzero((bounds <= self.upper) & self.may_follow(block, depth))
        cost = block.cost[rows] + here[rows, gpus] - self.rest[depth][depth][gpus]
        digit = GPU_BITS * (CODED - 1 - self.plan.order[depth])
        return _Block(
            block.used[rows] | (1 << gpus),
            np.concatenate((block.at[rows], gpus[:, None]), axis=1),
            cost,
            block.code[rows] + (gpus << digit if digit >= 0 else 0),
            bounds[rows, gpus],
        )

    def may_follow(self, block: _Block, depth: int) -> Bools:
        """Row x GPU: what symmetry, GPUs to keep and pairs to avoid leave for the next rank."""
        used = block.used[:, None]
        fits: Bools = ((used & self.problem.lower_twins) == self.problem.lower_twins) & (
            (used & self.problem.apart) == 0
        )
        if self.plan.interchangeable:
            fits &= (used >> self.gpu_numbers) == 0
        for position in self.plan.below[depth]:
            fits &= block.at[:, position, None] < self.gpu_numbers
        keep = self.problem.keep
        if keep:
            lacking = keep & ~(used | 1 << self.gpu_numbers)
            missing = np.add.reduce([lacking >> gpu & 1 for gpu in range(self.problem.gpus)])
            fits &= missing <= self.problem.ranks - depth - 1
        return fits

    def merge(self, block: _Block, depth: int) -> _Block:
        """Of partial mappings with the same future keep the cheapest, of equals the first."""
        open_positions = self.plan.open[depth]
        bits = self.problem.gpus + GPU_BITS * len(open_positions)
        if len(open_positions) == depth or len(block) < 2 or bits > KEY_BITS:
            return block
        key = block.used
        for at, position in enumerate(open_positions):
            key = key | block.at[:, position] << (self.problem.gpus + GPU_BITS * at)
        order = np.lexsort((block.code, block.cost, key))
        first = np.ones(len(order), dtype=bool)
        first[1:] = key[order][1:] != key[order][:-1]
        return block.pick(order[first])

    def rest_bound(self, depth: int) -> Ints:
        """Position x GPU: half of the least that a rank pays to others placed after ``depth``."""
        later = range(depth, self.problem.ranks)
        bound = np.zeros_like(self.single)
        for position in later:
            demands = sorted((int(self.demand[position, other]) for other in later), reverse=True)
            # The largest demand over the shortest way, and so on: no assignment is cheaper.
            for nth, demand in enumerate(each for each in demands if each):
                bound[position] += self.cheapest[demand][:, nth]
        return np.minimum(bound, IMPOSSIBLE)

    @cached_property
    def cheapest(self) -> dict[int, Ints]:
        """Per demand: GPU x n, half of what its n-th cheapest pair costs."""
        itself = np.diag(np.full(self.problem.gpus, IMPOSSIBLE))
        return {demand: np.sort(pair + itself, axis=1) // 2 for demand, pair in self.pairs.items()}


@dataclass(frozen=True)
class _Plan:
    """In which order to place ranks, and what their symmetry allows to skip."""

    order: tuple[int, ...]
    interchangeable: bool
    """Any two ranks may be exchanged: only sets matter."""
    below: tuple[tuple[int, ...], ...]
    """Per position: earlier positions whose GPU must have a lower number."""
    open: tuple[tuple[int, ...], ...]
    """Per depth: placed positions that ranks to come still talk to."""


@lru_cache(maxsize=256)
def _plan(demand: Matrix, classes: tuple[int, ...]) -> _Plan:
    ranks = len(demand)
    order = _order(demand)
    ordered = tuple(tuple(demand[i][j] for j in order) for i in order)
    kinds = tuple(classes[rank] for rank in order)
    pairs = {ordered[one][other] for one in range(ranks) for other in range(one)}
    interchangeable = len(pairs) <= 1 and len(set(kinds)) == 1
    orbits = [
        {other for other in range(at + 1, ranks) if _exchangeable(ordered, kinds, at, other)}
        if ranks <= MOST_SYMMETRIC and not interchangeable
        else set()
        for at in range(ranks)
    ]
    open_positions = tuple(
        tuple(at for at in range(depth) if any(ordered[at][depth:])) for depth in range(ranks + 1)
    )
    # A symmetry is used only where it asks about a rank that the key of merge() holds anyway.
    below = tuple(
        tuple(at for at in open_positions[depth] if depth in orbits[at]) for depth in range(ranks)
    )
    if interchangeable:
        below, open_positions = ((),) * ranks, ((),) * (ranks + 1)
    return _Plan(order, interchangeable, below, open_positions)


def _order(demand: Matrix) -> tuple[int, ...]:
    """Ranks so that each talks as much as possible to those before it."""
    left = list(range(len(demand)))
    order: list[int] = []
    while left:
        best = max(
            left,
            key=lambda rank: (
                sum(demand[rank][other] for other in order),
                sum(demand[rank]),
                -rank,
            ),
        )
        left.remove(best)
        order.append(best)
    return tuple(order)


def _exchangeable(demand: Matrix, kinds: tuple[int, ...], at: int, other: int) -> bool:
    """Whether ``other`` can stand in for ``at`` with the ranks before ``at`` fixed."""

    def extend(image: list[int]) -> bool:
        rank = len(image)
        if rank == len(demand):
            return True
        for candidate in [other] if rank == at else range(at, len(demand)):
            fits = (
                candidate not in image
                and kinds[candidate] == kinds[rank]
                and all(
                    demand[rank][earlier] == demand[candidate][image[earlier]]
                    for earlier in range(rank)
                )
            )
            if fits and extend([*image, candidate]):
                return True
        return False

    return extend(list(range(at)))
