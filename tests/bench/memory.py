"""What allocating and freeing costs through the shim, at few and at many live blocks."""

from tests.bench import calls
from tests.bench.figures import Figure


def run(quick: bool) -> list[Figure]:
    figures = []
    measured = calls.measure("memory", 5 if quick else 9)
    for name, (without, within) in measured.items():
        if name.startswith("alloc"):
            figure = Figure(
                name, within, "ns", without, "at most 150 ns more", within - without <= 150
            )
        elif name == "cuMemGetInfo":
            figure = Figure(name, within, "ns", without, "at most 2x", within <= 2 * without)
        else:  # mostly cache misses, of the driver and of ours
            figure = Figure(name, within, "ns", without)
        figures.append(figure)
    few, many = (measured[f"alloc and free at {n} live blocks"] for n in (10, 100000))
    grown = (many[1] - many[0]) - (few[1] - few[0])
    figures.append(
        Figure("what 100 000 live blocks add to that", grown, "ns", 0.0, "flat", grown <= 100)
    )
    for processes in (1, 2, 16):
        (rate, p99), (own_rate, own_p99) = (calls.pairs(v, processes) for v in (True, False))
        figures.append(Figure(f"{processes} processes: pairs", rate, "per s", own_rate))
        figures.append(Figure(f"{processes} processes: p99 of a pair", p99, "ns", own_p99))
    return figures
