"""Placement: how long an answer takes, whether it is the best, what it gains over Slurm alone."""

import random
import statistics
import time
from itertools import combinations

from pysched.placement import Request, engine, patterns, place
from pysched.placement.patterns import Matrix
from pysched.topology import Topology
from tests.bench import choices, machines
from tests.bench.figures import Figure
from tests.unit.best_placement import Best

COMMS = ("ring", "chain", "tree", "alltoall", "tp2xdp4", "tp4xdp2", "tp8xdp1", "matrix")
RUNS = 5
CUBE_MESH = "dgx1_v100_4nic"
UNEVEN = (CUBE_MESH, "a100_pcie_4gpu_bridge_pairs")


def demand(comm: str, ranks: int, rng: random.Random) -> Matrix:
    if comm != "matrix":
        return patterns.matrix(comm, ranks)
    rows = [[0] * ranks for _ in range(ranks)]
    for one, other in combinations(range(ranks), 2):
        rows[one][other] = rows[other][one] = rng.randrange(100)
    return tuple(map(tuple, rows))


def milliseconds(topology: Topology, asked: Request, free: dict[int, dict[str, int]]) -> float:
    """CPU time to an answer that is not remembered, the best of a few: the machine may be busy."""
    times = []
    for _ in range(RUNS):
        engine._place.cache_clear()
        start = time.thread_time()
        place(topology, free, asked)
        times.append(1000 * (time.thread_time() - start))
    return min(times)


def solve_times(maps: dict[str, Topology], ranks: int, every: int) -> list[float]:
    rng, times = random.Random(0), []
    cases = [(topology, comm) for topology in maps.values() for comm in COMMS]
    for topology, comm in cases[::every]:
        asked = Request(demand(comm, ranks, rng), ("",) * ranks, comm)
        free = {gpu: {"": rng.randrange(1, 5)} for gpu in range(len(topology))}
        times.append(milliseconds(topology, asked, free))
    return times


def tried_all(topology: Topology) -> float:
    """Milliseconds for trying all mappings of eight ranks with numpy, which is the baseline."""
    asked = Request(patterns.matrix("ring", 8), ("",) * 8, "ring")
    free = {gpu: {"": 1} for gpu in range(8)}
    load = dict.fromkeys(range(8), 0.0)
    Best(topology, free, asked, load)
    start = time.thread_time()
    Best(topology, free, asked, load)
    return 1000 * (time.thread_time() - start)


def cached_time(topology: Topology) -> float:
    asked = Request(patterns.matrix("ring", 4), ("",) * 4, "ring")
    free = {gpu: {"": 1} for gpu in range(len(topology))}
    place(topology, free, asked)
    times = []
    for _ in range(1000):
        start = time.perf_counter()
        place(topology, free, asked)
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def optimal_share(maps: dict[str, Topology], samples: int) -> float:
    """How many of random requests get an answer that trying everything does not beat."""
    rng, right = random.Random(1), 0
    for _ in range(samples):
        topology = rng.choice(list(maps.values()))
        ranks = rng.randrange(1, min(8, len(topology)) + 1)
        asked = Request(demand("matrix", ranks, rng), ("",) * ranks, "matrix")
        free = {gpu: {"": rng.randrange(1, 4)} for gpu in range(len(topology))}
        load = {gpu: 1 - kinds[""] / 4 for gpu, kinds in free.items()}
        best = Best(topology, free, asked, load)
        right += list(place(topology, free, asked, load).gpus) in best.at.tolist()
    return right / samples


def against_restarts(ranks: int, starts: int, rng: random.Random) -> float:
    """The worst of the engine's answers against exchanges from many random orders, for rings."""
    worst = 0.0
    for topology in machines.sixteen().values():
        empty = choices.Free(topology, list(range(16)))
        found = choices.ring(topology, choices.slurm_vgpu(empty, ranks, rng))
        best = 0.0
        for _ in range(starts):
            best = max(best, climbed(topology, rng.sample(range(16), 16), ranks))
        worst = max(worst, best / found)
    return worst


def climbed(topology: Topology, order: list[int], ranks: int) -> float:
    """The ring after exchanging two places as long as that helps."""

    def value() -> tuple[float, float]:
        ring = order[:ranks]
        hops = [topology.bandwidth(ring[at - 1], ring[at]) for at in range(ranks)]
        return min(hops), -sum(1 / hop for hop in hops)

    best, improved = value(), True
    while improved:
        improved = False
        for one, other in combinations(range(16), 2):
            order[one], order[other] = order[other], order[one]
            if one < ranks and value() > best:
                best, improved = value(), True
            else:
                order[one], order[other] = order[other], order[one]
    return best[0]


def gain(topology: Topology, chooser: str, count: int, samples: int, slots: int) -> float:
    """How much faster rings are on average than those of another chooser on a half busy machine."""
    rng, ours, others = random.Random(2), [], []
    for _ in range(samples):
        free = choices.half_busy(topology, count, rng, slots)
        ours.append(choices.ring(topology, choices.slurm_vgpu(free, count, rng)))
        others.append(choices.ring(topology, choices.CHOOSERS[chooser](free, count, rng)))
    return statistics.mean(ours) / max(statistics.mean(others), 1e-9)


def gains(maps: dict[str, Topology], samples: int) -> list[Figure]:
    """For rings of four; the promise is about the average of both machines, with slots."""
    figures = []
    for chooser, least in (("Slurm to 23.11", 1.5), ("first fit", 2.3)):
        over = f"over_{chooser.replace(' ', '_')}"
        slots = {name: gain(maps[name], chooser, 4, samples, choices.SLOTS) for name in UNEVEN}
        average = statistics.mean(slots.values())
        holds = average >= least
        figures.append(Figure(f"ring_{over}", average, "x", 1.0, f"at least {least}", holds))
        figures += [Figure(f"ring_{over}_{name}", found, "x", 1.0) for name, found in slots.items()]
        whole = gain(maps[CUBE_MESH], chooser, 4, samples, 1)
        figures.append(Figure(f"ring_{over}_{CUBE_MESH}_whole_cards", whole, "x", 1.0))
    return figures


def run(quick: bool) -> list[Figure]:
    maps = machines.recorded()
    eights = {name: topology for name, topology in maps.items() if len(topology) == 8}
    every, samples = (3, 40) if quick else (1, 400)
    eight, sixteen = solve_times(eights, 8, every), solve_times(machines.sixteen(), 8, every)
    baseline, cached = tried_all(maps[CUBE_MESH]), cached_time(maps[CUBE_MESH])
    optimal = optimal_share(maps, samples)
    ratio = against_restarts(12, 4 if quick else 100, random.Random(3))
    return [
        Figure("solve_8_of_8", max(eight), "ms", baseline, "at most 20", max(eight) <= 20),
        Figure("solve_8_of_16", max(sixteen), "ms", None, "at most 100", max(sixteen) <= 100),
        Figure("remembered", cached, "ms", min(eight), "at most 0.2", cached <= 0.2),
        Figure("optimal_up_to_8", optimal, "share", None, "1", optimal == 1),
        Figure("restarts_over_12_of_16", ratio, "x", 1.0, "at most 1.01", ratio <= 1.01),
        *gains(maps, samples),
    ]
