"""Where SciPy is not installed, as Debian's package allows, only large placements are missing."""

import random
import sys
from itertools import combinations

import pytest

from pysched import placement
from pysched.placement import PlacementError, engine
from pysched.placement.request import Request
from pysched.topology import Gpu, Link, Topology
from pysched.topology.rates import Rates

RANKS = 16


@pytest.fixture
def no_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    # Another test may have brought it in: as a module and as a name in its package.
    monkeypatch.delitem(sys.modules, "pysched.placement.heuristic", raising=False)
    monkeypatch.delattr(placement, "heuristic", raising=False)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)


def hard(seed: int) -> tuple[Topology, Request]:
    """Links and traffic of all sizes: more than the exact search has time for."""
    rng = random.Random(seed)
    pairs = list(combinations(range(RANKS), 2))
    links = tuple(Link(rng.randrange(1, 12)) for _ in pairs)
    rows = [[0] * RANKS for _ in range(RANKS)]
    for one, other in pairs:
        rows[one][other] = rows[other][one] = rng.randrange(1, 100)
    topology = Topology((Gpu(Rates(20.0, 24.0)),) * RANKS, links)
    return topology, Request(tuple(map(tuple, rows)), ("",) * RANKS, "a matrix")


@pytest.mark.usefixtures("no_scipy")
def test_that_many_ranks_without_scipy_are_refused_with_a_sentence() -> None:
    topology, asked = hard(1)
    with pytest.raises(PlacementError, match=r"^scipy.* is not installed"):
        engine.place(topology, {gpu: {"": 1} for gpu in range(RANKS)}, asked)


@pytest.mark.usefixtures("no_scipy")
def test_that_few_ranks_need_no_scipy() -> None:
    topology, asked = hard(2)
    few = Request(tuple(row[:8] for row in asked.demand[:8]), ("",) * 8, "a matrix")
    found = engine.place(topology, {gpu: {"": 1} for gpu in range(8)}, few)
    assert sorted(found.gpus) == list(range(8))
