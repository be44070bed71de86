"""The simulated GPUs of one node, as the driver finds them under /run/gpusim (tests/README.md)."""

from dataclasses import dataclass
from pathlib import Path

from tests.sandbox import kernel
from tests.sandbox.errors import SandboxError
from tests.sandbox.paths import GPUSIM, REPOSITORY

MACHINES = REPOSITORY / "tests" / "gpusim" / "machines"
DEFAULT = "a100-pcie-4"


@dataclass(frozen=True)
class Machine:
    """A machine file: its text, and the minor numbers of its GPUs."""

    text: str
    minors: tuple[int, ...]


def read_machine(name: str) -> Machine:
    """A machine file by its path, or one of tests/gpusim/machines by its name."""
    path = Path(name) if "/" in name else MACHINES / f"{name}.machine"
    try:
        text = path.read_text()
    except OSError as error:
        known = ", ".join(sorted(file.stem for file in MACHINES.glob("*.machine")))
        raise SandboxError(
            f"machine file {path}: {error.strerror}; give a path with a '/' or one of: {known}"
        ) from None
    count = sum(line.split()[:1] == ["gpu"] for line in text.splitlines())
    return Machine(text, tuple(range(count)))


def plug_in(machine: Machine, folder: Path = GPUSIM) -> None:
    """Make the folder that the simulated driver looks for; its processes fill `state` themselves."""
    with kernel.umask(0):
        folder.mkdir(0o755, parents=True)
        (folder / "machine").touch(0o644)
        (folder / "machine").write_text(machine.text)
        (folder / "state").touch(0o666)
