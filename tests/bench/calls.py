"""Calls of the driver, ns each, on the simulator: without the shim and with it, in turn."""

import subprocess
from pathlib import Path

from tests.sandbox.paths import REPOSITORY, SOURCE

_GPUSIM = REPOSITORY / "tests" / "gpusim" / "gpusim"
_PROGRAM = SOURCE / "build" / "tests" / "programs" / "calls"


def _run(vgpu: bool, *command: str) -> list[str]:
    """What a command prints, without or with a vGPU."""
    step = ["--vgpu", "8GiB"] if vgpu else []
    return subprocess.run(
        [_GPUSIM, "run", *step, "--", *command],
        cwd=Path("/"),
        text=True,
        capture_output=True,
        check=True,
        timeout=240,
    ).stdout.splitlines()


def _figures(vgpu: bool, *arguments: str) -> dict[str, float]:
    lines = _run(vgpu, str(_PROGRAM), *arguments)
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def measure(what: str, runs: int) -> dict[str, tuple[float, float]]:
    """Each figure without and with the shim: the best of the runs, the least disturbed one."""
    without: list[dict[str, float]] = []
    within: list[dict[str, float]] = []
    for _ in range(runs):
        without.append(_figures(False, what))
        within.append(_figures(True, what))
    return {
        name: (min(run[name] for run in without), min(run[name] for run in within))
        for name in without[0]
    }


def pairs(vgpu: bool, processes: int) -> tuple[float, float]:
    """Pairs a second of all processes together, and the worst p99 of one pair in ns."""
    together = f"for i in $(seq {processes}); do {_PROGRAM} pairs & done; wait"
    lines = _run(vgpu, "bash", "-c", together)
    said = [line.rsplit(" ", 1) for line in lines]
    return (
        sum(float(value) for name, value in said if name.startswith("pairs")),
        max(float(value) for name, value in said if name.startswith("p99")),
    )


def launch_instructions() -> float:
    """Instructions of the shim's own in one launch."""
    (count,) = _figures(True, "instructions", "libvgpu.so").values()
    return count
