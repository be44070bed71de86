"""The CPUs of each core, in the order in which Slurm numbers cores: socket after socket."""

from pathlib import Path

from pysched.topology.model import numbers
from pysched.topology.text import parse_ranges

SYSFS = Path("/sys/devices/system/cpu")


def read(sysfs: Path = SYSFS) -> list[frozenset[int]]:
    """Empty where Linux does not say."""
    found: dict[frozenset[int], tuple[int, int]] = {}
    for topology in sysfs.glob("cpu[0-9]*/topology"):
        try:
            threads = numbers(
                parse_ranges(_first(topology, "core_cpus_list", "thread_siblings_list"))
            )
            socket = int((topology / "physical_package_id").read_text())
        except (OSError, ValueError):
            return []
        found[threads] = (socket, min(threads))
    return sorted(found, key=lambda threads: found[threads])


def _first(folder: Path, *names: str) -> str:
    """What the first of the files that exist says."""
    for name in names:
        if (folder / name).exists():
            return (folder / name).read_text().strip()
    raise OSError(f"{folder} has none of {', '.join(names)}")
