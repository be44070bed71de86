"""What a launch costs through the shim, and finding functions."""

from tests.bench import calls
from tests.bench.figures import Figure


def run(quick: bool) -> list[Figure]:
    figures = []
    for name, (without, within) in calls.measure("launch", 5 if quick else 9).items():
        if name == "launch":
            promise, holds = "at most 10 ns more", within - without <= 10
        else:
            promise, holds = "at most 2x", within <= 2 * without
        figures.append(Figure(name, within, "ns", without, promise, holds))
    instructions = calls.launch_instructions()
    figures.append(Figure("launch: instructions of the shim", instructions, "instructions", 0.0))
    return figures
