"""`vgpu config generate` for 10 000 nodes with 80 000 GPUs: time and memory of the command."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figures import Figure, median_of

NODES = 10_000
_HEAD = """\
version: 1
cards:
  a100: {memory: 40GiB, sms: 108}
  h100: {memory: 80GiB, sms: 132}
types:
  a100-4g: {memory: 4GiB, sms: 12, max_sms: 54}
  a100-2g: {memory: 2GiB, sms: 6, max_sms: 54}
  h100-19g: {memory: 19GiB, sms: 33, max_sms: 132}
defaults:
  slurm: {CPUs: 64, Sockets: 2, CoresPerSocket: 32, RealMemory: 500000}
cluster: {slurm: 24.11}
nodes:
"""
_GPUS = (
    "{gpu: 0-3, card: a100, cores: 0-31, vgpus: {a100-4g: 5, a100-2g: 6}}, "
    "{gpu: 4-7, card: a100, cores: 32-63, vgpus: {a100-4g: 5, a100-2g: 6}}",
    "{gpu: 0-5, card: h100, vgpus: {h100-19g: 4}}, {gpu: 6, card: h100, whole: true}, "
    "{gpu: 7, card: h100, mig: {1g.10gb: [7, 8, 9, 10]}}",
)
_TIME = "2 s for 10 000 nodes"
_MEMORY = "500 MB for 10 000 nodes"


def run(quick: bool) -> list[Figure]:
    runs = 3 if quick else 9
    shapes = {
        "20 node sets": (_plan(_sets(20)), True),
        "every other node alike": (_plan(_alternating()), True),
        # Nobody writes such a plan by hand; most of the time is reading 2 MB of YAML.
        "10 000 node sets": (_plan(_sets(NODES)), False),
    }
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = median_of(lambda: _command(["--version"])[0], runs)
        for shape, (text, promised) in shapes.items():
            plan = folder / "plan.yaml"
            plan.write_text(text)
            arguments = ["config", "generate", str(plan), "-o", str(folder / "out")]
            measured = sorted(_command(arguments) for _ in range(runs))
            seconds, _ = measured[runs // 2]
            most = max(size for _, size in measured)
            time_promise, memory_promise = (_TIME, _MEMORY) if promised else ("", "")
            figures += [
                Figure(
                    f"{shape}: time", seconds, "s", start, time_promise,
                    seconds <= 2.0 if promised else None,
                ),
                Figure(
                    f"{shape}: memory", most / 1e6, "MB", None, memory_promise,
                    most <= 500e6 if promised else None,
                ),
            ]  # fmt: skip
    return figures


def _command(arguments: list[str]) -> tuple[float, int]:
    """Seconds and bytes of one run of the command."""
    program = [sys.executable, "-c", "from pysched.cli.main import main; main()", *arguments]
    began = time.perf_counter()
    pid = os.posix_spawn(
        sys.executable,
        program,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        raise RuntimeError(f"vgpu {' '.join(arguments)} failed")
    return time.perf_counter() - began, usage.ru_maxrss * 1024


def _plan(sets: Iterator[tuple[str, int]]) -> str:
    return _HEAD + "".join(
        f"  - {{names: '{names}', gpus: [{_GPUS[kind]}]}}\n" for names, kind in sets
    )


def _sets(count: int) -> Iterator[tuple[str, int]]:
    size = NODES // count
    for number in range(count):
        first = number * size + 1
        names = f"n[{first:05}-{first + size - 1:05}]" if size > 1 else f"n{first:05}"
        yield names, number % 2


def _alternating() -> Iterator[tuple[str, int]]:
    for kind in (0, 1):
        numbers = ",".join(f"{number:05}" for number in range(1 + kind, NODES + 1, 2))
        yield f"n[{numbers}]", kind
