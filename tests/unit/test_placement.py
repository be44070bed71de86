"""Claims about the placement engine: its answers are the best there are."""

import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pysched.placement import Affinity, Placement, PlacementError, Policy, Request, engine, patterns
from pysched.placement.patterns import Matrix
from pysched.placement.request import Free
from pysched.topology import Gpu, Link, Path, Topology, smi
from pysched.topology.rates import Rates
from tests.unit.best_placement import CLOSE, Best
from tests.unit.topo_expected import FOLDER, MACHINES

MAPS = {name: smi.read((FOLDER / name).read_text(), name) for name in MACHINES}
DGX1 = MAPS["dgx1_v100_4nic.txt"]
PAIRS = MAPS["a100_pcie_4gpu_bridge_pairs.txt"]
RATES = Rates(20.0, 24.0)


def request(comm: str, ranks: int, **more: object) -> Request:
    demand = patterns.matrix(comm, ranks)
    return Request(demand, ("",) * ranks, comm, **more)  # type: ignore[arg-type]


def slots(*counts: int) -> Free:
    return {gpu: {"": count} for gpu, count in enumerate(counts)}


def random_matrix(ranks: int, density: float, rng: random.Random) -> Matrix:
    rows = [[0] * ranks for _ in range(ranks)]
    for one, other in combinations(range(ranks), 2):
        if rng.random() < density:
            rows[one][other] = rows[other][one] = rng.randrange(1, 100)
    return tuple(map(tuple, rows))


def patterns_for(ranks: int, rng: random.Random) -> dict[str, Matrix]:
    """Eight patterns that a step of this size can have."""
    group = next(size for size in (2, 3, 5, 7, 1) if ranks % size == 0)
    names = ["ring", "chain", "tree", "alltoall", f"tp{ranks}xdp1", f"tp{group}xdp{ranks // group}"]
    return {name: patterns.matrix(name, ranks) for name in names} | {
        "a sparse matrix": random_matrix(ranks, 0.4, rng),
        "a dense matrix": random_matrix(ranks, 1.0, rng),
    }


def assert_best(
    topology: Topology, free: Free, asked: Request, load: dict[int, float], what: str
) -> None:
    """The engine's answer has the least cost in every part, or there is no answer."""
    best = Best(topology, free, asked, load)
    try:
        found = engine.place(topology, free, asked, load)
    except PlacementError:
        assert not len(best), f"{what}: refused, but {best.at[0]} is possible"
        return
    assert len(best), f"{what}: {found.gpus} is not allowed"
    # The mapping itself must be among the best, whatever the engine says of its cost.
    assert list(found.gpus) in best.at.tolist(), f"{what}: {found}, the best are {best.at[:4]}"
    assert found.lost_gbps == pytest.approx(best.lost, rel=1e-3, abs=1.0)
    assert found.optimal


def half_busy(topology: Topology, rng: random.Random) -> tuple[Free, dict[int, float]]:
    free = {gpu: {"": rng.choice((0, 0, 1, 2, 3))} for gpu in range(len(topology))}
    return free, {gpu: 1 - types[""] / 4 for gpu, types in free.items()}


def cases(
    name: str, rng: random.Random, every: bool
) -> list[tuple[str, Free, Request, dict[int, float]]]:
    """Requests of a machine: N = 1 to 8, eight patterns, free or partly busy."""
    topology, found = MAPS[name], []
    for ranks in range(1, len(topology) + 1):
        chosen = patterns_for(ranks, rng)
        for pattern in chosen if every else rng.sample(sorted(chosen), 2):
            free, load = half_busy(topology, rng)
            if every or rng.random() < 0.3:
                whole = {gpu: {"": 4} for gpu in range(len(topology))}
                asked = Request(chosen[pattern], ("",) * ranks, pattern)
                found.append(
                    (f"{name} {pattern} {ranks} free", whole, asked, dict.fromkeys(whole, 0.0))
                )
            cpus = frozenset(rng.choice([range(0), range(20), range(40, 80)]))
            policy = rng.choice(list(Policy))
            asked = Request(chosen[pattern], ("",) * ranks, pattern, policy=policy, cpus=cpus)
            found.append((f"{name} {pattern} {ranks} busy {free}", free, asked, load))
    return found


@pytest.mark.parametrize("name", MAPS)
def test_that_the_answer_is_the_optimum_on(name: str) -> None:
    for what, free, asked, load in cases(name, random.Random(name), every=False):
        assert_best(MAPS[name], free, asked, load, what)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", MAPS)
def test_that_every_answer_is_the_optimum_on(name: str) -> None:
    for seed in range(3):
        for what, free, asked, load in cases(name, random.Random(f"{name} {seed}"), every=True):
            assert_best(MAPS[name], free, asked, load, what)


LINKS = st.sampled_from(
    [Link(1), Link(2), Link(4), *(Link(path=path) for path in (Path.PIX, Path.NODE, Path.SYS))]
)


@st.composite
def questions(draw: st.DrawFn) -> tuple[Topology, Free, Request, dict[int, float]]:
    count = draw(st.integers(1, 6))
    size = count * (count - 1) // 2
    gpus = tuple(
        Gpu(
            RATES,
            numa=draw(st.sampled_from([(), ((0, 0),), ((1, 1),)])),
            cpus=draw(st.sampled_from([(), ((0, 3),), ((4, 7),)])),
        )
        for _ in range(count)
    )
    topology = Topology(gpus, tuple(draw(st.lists(LINKS, min_size=size, max_size=size))))
    free = {
        gpu: draw(st.dictionaries(st.sampled_from("ab"), st.integers(0, 3), max_size=2))
        for gpu in range(count)
    }
    ranks = draw(st.integers(1, count))
    demand = random_matrix(ranks, draw(st.sampled_from([0.0, 0.5, 1.0])), draw(st.randoms()))
    kinds = draw(st.sampled_from([("a",) * ranks, tuple("ab"[rank % 2] for rank in range(ranks))]))
    asked = Request(
        draw(st.sampled_from([demand, patterns.matrix("ring", ranks)])),
        kinds,
        affinity=draw(st.sampled_from(Affinity)),
        policy=draw(st.sampled_from(Policy)),
        cpus=draw(st.sampled_from([frozenset[int](), frozenset({1}), frozenset({5})])),
        keep=frozenset(draw(st.sets(st.integers(0, count - 1), max_size=min(2, ranks)))),
    )
    loads = {gpu: draw(st.sampled_from([0.0, 0.25, 0.5])) for gpu in range(count)}
    return topology, free, asked, loads


@settings(max_examples=300, deadline=None)
@given(questions())
def test_that_any_question_gets_the_optimum(
    question: tuple[Topology, Free, Request, dict[int, float]],
) -> None:
    assert_best(*question, "a random machine")


# --- sixteen GPUs ---------------------------------------------------------------------------------


def sixteen(rng: random.Random) -> Topology:
    """Two cube meshes, a tree of PCIe switches, pairs, or links at random."""
    kind = rng.randrange(4)

    def link(one: int, other: int) -> Link:
        near, same = one // 2 == other // 2, one // 8 == other // 8
        if kind == 0:
            return DGX1.link(one % 8, other % 8) if same else Link(path=Path.SYS)
        if kind == 1:
            way = Path.PIX if near else Path.PXB if one // 4 == other // 4 else Path.NODE
            return Link(path=way if same else Path.SYS)
        if kind == 2:
            return Link(12) if near else Link(path=Path.NODE if same else Path.SYS)
        return rng.choice([Link(1), Link(2), Link(path=Path.PIX), Link(path=Path.SYS)])

    return Topology((Gpu(RATES),) * 16, tuple(link(*pair) for pair in combinations(range(16), 2)))


def better(topology: Topology, free: list[int], demand: Matrix, known: tuple[float, float]) -> bool:
    """Whether a mapping beats the known (worst, sum): depth first, one rank after another."""
    ranks = len(demand)
    least = min(1 / topology.bandwidth(*pair) for pair in combinations(free, 2))
    ahead = [
        sum(demand[i][j] for i in range(rank, ranks) for j in range(i)) * least
        for rank in range(ranks + 1)
    ]

    def extend(at: list[int], worst: float, total: float) -> bool:
        rank = len(at)
        beaten = worst * (1 + CLOSE) < known[0]
        shorter = (total + ahead[rank]) * (1 + CLOSE) < known[1]
        if worst > known[0] * (1 + CLOSE) or not (beaten or shorter):
            return False
        if rank == ranks:
            return True
        for gpu in free:
            if gpu not in at:
                costs = [
                    demand[rank][i] / topology.bandwidth(gpu, at[i])
                    for i in range(rank)
                    if demand[rank][i]
                ]
                if extend([*at, gpu], max([worst, *costs]), total + sum(costs)):
                    return True
        return False

    return extend([], 0.0, 0.0)


def cost_of(found: Placement, demand: Matrix, topology: Topology) -> tuple[float, float]:
    costs = [
        demand[one][other] / topology.bandwidth(found.gpus[one], found.gpus[other])
        for one, other in combinations(range(len(demand)), 2)
        if demand[one][other]
    ]
    return max(costs, default=0.0), sum(costs)


def assert_none_better(seed: int, ranks: int) -> None:
    rng = random.Random(seed)
    topology = sixteen(rng)
    free = sorted(rng.sample(range(16), rng.randrange(ranks, 17)))
    for name, demand in patterns_for(ranks, rng).items():
        asked = Request(demand, ("",) * ranks, name)
        found = engine.place(topology, {gpu: {"": 1} for gpu in free}, asked)
        assert not better(topology, free, demand, cost_of(found, demand, topology)), (seed, name)


@pytest.mark.parametrize("seed", range(12))
def test_that_nothing_beats_the_answer_among_sixteen(seed: int) -> None:
    assert_none_better(seed, 4)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("ranks", [5, 6])
@pytest.mark.parametrize("seed", range(20))
def test_that_nothing_beats_the_larger_answer_among_sixteen(seed: int, ranks: int) -> None:
    assert_none_better(seed, ranks)


# --- what the answers say and do ------------------------------------------------------------------


def place(topology: Topology, free: Free, asked: Request, **more: object) -> Placement:
    return engine.place(topology, free, asked, **more)  # type: ignore[arg-type]


def test_that_two_ranks_get_the_intact_pair() -> None:
    found = place(PAIRS, slots(0, 4, 4, 4), request("ring", 2))
    assert found.gpus == (2, 3)
    assert found.bottleneck_gbps == found.allreduce_gbps == 240.0


def test_that_eight_ranks_on_a_cube_mesh_ring_over_double_links_only() -> None:
    found = place(DGX1, slots(*[1] * 8), request("ring", 8))
    hops = [DGX1.link(found.gpus[at - 1], found.gpus[at]) for at in range(8)]
    assert hops == [Link(2)] * 8
    assert found.why == (
        f"GPUs {','.join(map(str, found.gpus))} for ring: 8 over NV2, limited by a pair with "
        "40 GB/s, no mapping is better"
    )


def test_that_tensor_groups_get_the_strong_links() -> None:
    found = place(PAIRS, slots(1, 1, 1, 1), request("tp2xdp2", 4))
    assert {frozenset(found.gpus[:2]), frozenset(found.gpus[2:])} == {
        frozenset({0, 1}),
        frozenset({2, 3}),
    }


def test_that_alike_links_are_said_to_give_no_gain() -> None:
    found = place(MAPS["dgx_a100_12nic.txt"], slots(*[1] * 8), request("ring", 4))
    assert "no gain possible from links, every pair is NV12 (240 GB/s)" in found.why


def test_that_one_rank_takes_the_gpu_whose_pair_is_broken() -> None:
    found = place(PAIRS, slots(0, 1, 1, 1), request("ring", 1))
    assert (found.gpus, found.lost_gbps) == ((1,), 2 * 12.0)


def test_that_a_whole_pair_is_taken_rather_than_two_halves() -> None:
    found = place(PAIRS, slots(1, 1, 1, 1), request("none", 2))
    assert found.gpus in ((0, 1), (2, 3))


def test_that_spreading_takes_the_emptiest_and_packing_the_fullest() -> None:
    load = {0: 0.5, 1: 0.25, 2: 0.0, 3: 0.75}
    spread = place(PAIRS, slots(2, 3, 4, 1), request("none", 1), load=load)
    pack = place(PAIRS, slots(2, 3, 4, 1), request("none", 1, policy=Policy.PACK), load=load)
    assert (spread.gpus, pack.gpus) == ((2,), (3,))


def test_that_gpus_next_to_the_cpus_come_before_empty_ones() -> None:
    load = {0: 0.5, 1: 0.5, 2: 0.0, 3: 0.0}
    asked = request("none", 1, cpus=frozenset({0, 1}))
    found = place(PAIRS, slots(1, 1, 2, 2), asked, load=load)
    assert (found.gpus, found.away) == ((0,), 0)
    assert "1 of 1 next to the CPUs" in found.why


def test_that_links_come_before_closeness_to_the_cpus() -> None:
    found = place(PAIRS, slots(1, 0, 1, 1), request("ring", 2, cpus=frozenset({0})))
    assert (found.gpus, found.away) == ((2, 3), 2)


def test_that_each_rank_gets_a_slot_of_its_type() -> None:
    free: Free = {0: {"small": 1}, 1: {"large": 1}, 2: {"small": 1}, 3: {"large": 1}}
    asked = Request(patterns.matrix("ring", 2), ("large", "small"), "ring")
    found = place(PAIRS, free, asked)
    assert (set(free[found.gpus[0]]), set(free[found.gpus[1]])) == ({"large"}, {"small"})
    assert PAIRS.link(*found.gpus).nvlinks == 12


def test_that_gpus_to_keep_are_among_the_chosen() -> None:
    found = place(PAIRS, slots(1, 1, 1, 0), request("ring", 2, keep=frozenset({3})))
    assert set(found.gpus) == {2, 3}


REFUSED = {
    "too few GPUs": (
        slots(3, 0, 0, 2),
        request("ring", 3),
        "3 vGPUs need as many different GPUs with a free slot, there are 2",
    ),
    "no linked set": (
        slots(1, 1, 1, 1),
        request("ring", 3, affinity=Affinity.REQUIRE_NVLINK),
        "no 3 of the 4 GPUs with a free slot are all linked by NVLink",
    ),
    "no NUMA node": (
        slots(1, 1, 1, 1),
        request("ring", 3, affinity=Affinity.SAME_NUMA),
        "no 3 of the 4 GPUs with a free slot are on one NUMA node",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_that_a_request_is_refused_in_one_sentence_for(what: str) -> None:
    free, asked, message = REFUSED[what]
    for _ in range(2):
        with pytest.raises(PlacementError) as caught:
            place(PAIRS, free, asked)
        assert str(caught.value) == message


def test_that_an_unknown_numa_layout_is_no_reason_to_promise_one_node() -> None:
    topology = Topology((Gpu(RATES),) * 2, (Link(path=Path.SYS),))
    with pytest.raises(PlacementError, match="does not say which GPUs share a NUMA node"):
        place(topology, slots(1, 1), request("ring", 2, affinity=Affinity.SAME_NUMA))


def test_that_a_hard_affinity_is_met_even_between_ranks_that_do_not_talk() -> None:
    asked = request("none", 4, affinity=Affinity.REQUIRE_NVLINK)
    assert set(place(DGX1, slots(*[1] * 8), asked).gpus) in ({0, 1, 2, 3}, {4, 5, 6, 7})


def test_that_equal_questions_get_equal_answers() -> None:
    rng = random.Random(7)
    topology, asked = sixteen(rng), request("ring", 12)
    first = place(topology, slots(*[1] * 16), asked)
    engine._place.cache_clear()
    assert place(topology, slots(*[1] * 16), asked) == first


def test_that_many_ranks_do_not_miss_an_easy_optimum() -> None:
    two_meshes = Topology(
        (Gpu(RATES),) * 16,
        tuple(
            DGX1.link(one % 8, other % 8) if one // 8 == other // 8 else Link(path=Path.SYS)
            for one, other in combinations(range(16), 2)
        ),
    )
    found = place(two_meshes, slots(*[1] * 16), request("tp8xdp2", 16))
    assert [set(found.gpus[:8]), set(found.gpus[8:])] in (
        [set(range(8)), set(range(8, 16))],
        [set(range(8, 16)), set(range(8))],
    )


def climbed(
    demand: Matrix, topology: Topology, starts: int, rng: random.Random
) -> tuple[float, float]:
    """The best (worst, sum) of plain exchanges from random orders, apart from the engine."""
    ranks, best = len(demand), (float("inf"), float("inf"))
    table = [
        [topology.bandwidth(one, other) if one != other else 1.0 for other in range(16)]
        for one in range(16)
    ]

    def cost(at: list[int]) -> tuple[float, float]:
        pairs = [
            demand[i][j] / table[at[i]][at[j]]
            for i in range(ranks)
            for j in range(i)
            if demand[i][j]
        ]
        return max(pairs), sum(pairs)

    for _ in range(starts):
        at = rng.sample(range(16), 16)
        value, improved = cost(at), True
        while improved:
            improved = False
            for i, j in combinations(range(16), 2):
                at[i], at[j] = at[j], at[i]
                if i < ranks and cost(at) < value:
                    value, improved = cost(at), True
                else:
                    at[i], at[j] = at[j], at[i]
        best = min(best, value)
    return best


def assert_as_good_as_restarts(seed: int, starts: int) -> None:
    rng = random.Random(seed)
    topology, ranks = sixteen(rng), rng.randrange(9, 17)
    name = rng.choice(["ring", "chain", "tree", "alltoall"])
    demand = patterns.matrix(name, ranks)
    found = place(topology, slots(*[1] * 16), Request(demand, ("",) * ranks, name))
    worst, total = cost_of(found, demand, topology)
    best_worst, best_total = climbed(demand, topology, starts, rng)
    assert worst <= best_worst * 1.01, (seed, name, ranks)
    assert worst < best_worst * (1 - CLOSE) or total <= best_total * 1.01, (seed, name, ranks)


@pytest.mark.parametrize("seed", range(8))
def test_that_more_than_eight_ranks_are_within_one_per_cent_of_restarts(seed: int) -> None:
    assert_as_good_as_restarts(seed, starts=12)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 140))
def test_that_more_than_eight_ranks_are_within_one_per_cent_of_many_restarts(seed: int) -> None:
    assert_as_good_as_restarts(seed, starts=400)
