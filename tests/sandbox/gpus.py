"""The simulated GPUs of one node, as the driver finds them under /run/gpusim (tests/README.md)."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.sandbox import kernel
from tests.sandbox.errors import SandboxError
from tests.sandbox.paths import GPUSIM, REPOSITORY

MACHINES = REPOSITORY / "tests" / "gpusim" / "machines"
DEFAULT = "a100-pcie-4"


@dataclass(frozen=True)
class Gpu:
    """What a machine file says about one GPU, as far as configuration files need it."""

    minor: int
    memory: str
    sms: int


@dataclass(frozen=True)
class Machine:
    """A machine file. tests/gpusim/machine.h describes it; the simulated driver checks it."""

    text: str
    gpus: tuple[Gpu, ...]
    switch_links: int = 0  # of each GPU to NVSwitches
    links: dict[tuple[int, int], int] = field(default_factory=dict)  # between pairs

    @property
    def minors(self) -> tuple[int, ...]:
        return tuple(gpu.minor for gpu in self.gpus)


def read_machine(name: str) -> Machine:
    """A machine file by its path, or one of tests/gpusim/machines by its name."""
    path = Path(name) if "/" in name else MACHINES / f"{name}.machine"
    try:
        return _parse(path.read_text())
    except OSError as error:
        known = ", ".join(sorted(file.stem for file in MACHINES.glob("*.machine")))
        raise SandboxError(
            f"machine file {path}: {error.strerror}; give a path with a '/' or one of: {known}"
        ) from None
    except (ValueError, KeyError) as error:
        raise SandboxError(f"machine file {path}: cannot be read: {error}") from None


def _parse(text: str) -> Machine:
    gpus: dict[int, dict[str, str]] = {}
    links: dict[tuple[int, int], int] = {}
    switch_links = 0
    for line in text.splitlines():
        words = dict(word.split("=", 1) for word in shlex.split(line, comments=True))
        if "gpu" in words:
            for index in _numbers(words["gpu"]):
                gpus.setdefault(index, {}).update(words)
        elif "link" in words:
            links |= dict.fromkeys(_pairs(words["link"]), int(words["count"]))
        elif "switch" in words:
            switch_links = int(words["count"])
    if not gpus:
        raise ValueError("no line begins with gpu=")
    return Machine(
        text, tuple(_gpu(index, gpus[index]) for index in sorted(gpus)), switch_links, links
    )


def _gpu(index: int, words: dict[str, str]) -> Gpu:
    return Gpu(int(words.get("minor", index)), words["memory"], int(words["sms"]))


def _numbers(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _pairs(text: str) -> Iterator[tuple[int, int]]:
    left, _, right = text.partition(":")
    for a in _numbers(left):
        for b in _numbers(right or left):
            if a != b:
                yield min(a, b), max(a, b)


def plug_in(machine: Machine, folder: Path = GPUSIM) -> None:
    """Make the folder that the simulated driver looks for; its processes fill `state`."""
    with kernel.umask(0):
        folder.mkdir(0o755, parents=True)
        (folder / "machine").touch(0o644)
        (folder / "machine").write_text(machine.text)
        (folder / "state").touch(0o666)
