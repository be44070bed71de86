"""Slurm's numbering of cores: all cores of the first socket, then those of the next."""

import re
from pathlib import Path

from gres.sources.machine import Cpus

_CPU = re.compile(r"cpu([0-9]+)")


def from_sysfs(root: Path = Path("/sys/devices/system/cpu")) -> Cpus | None:
    """The CPUs of this node as Linux describes them."""
    found: list[tuple[int, str, str]] = []
    for folder in root.glob("cpu[0-9]*"):
        match = _CPU.fullmatch(folder.name)
        try:
            socket = (folder / "topology" / "physical_package_id").read_text().strip()
            core = (folder / "topology" / "core_id").read_text().strip()
        except OSError:  # offline
            continue
        if match:
            found.append((int(match[1]), socket, core))
    return number(found)


def from_lscpu(text: str) -> Cpus | None:
    """The CPUs as ``lscpu -p=CPU,CORE,SOCKET`` or plain ``lscpu -p`` lists them."""
    found: list[tuple[int, str, str]] = []
    for line in text.splitlines():
        cells = line.split(",")
        if not line.startswith("#") and len(cells) >= 3 and cells[0].isdecimal():
            found.append((int(cells[0]), cells[2], cells[1]))
    return number(found)


def number(cpus: list[tuple[int, str, str]]) -> Cpus | None:
    """Number cores as Slurm does, from (CPU, socket, core): in the order of their first CPUs."""
    sockets: dict[str, dict[str, int]] = {}
    for _, socket, core in sorted(cpus):
        sockets.setdefault(socket, {}).setdefault(core, 0)
    if not sockets:
        return None
    total = 0
    for cores in sockets.values():
        for core in cores:
            cores[core] = total
            total += 1
    return Cpus({cpu: sockets[socket][core] for cpu, socket, core in cpus}, len(sockets))


def from_affinities(affinities: list[frozenset[int]], slurm: dict[str, str]) -> Cpus | None:
    """What follows from GPUs' CPU affinities alone where each is a socket, and none is missing.

    Cores within a socket cannot be told apart, which does not matter for whole sockets.
    """
    sets = sorted({affinity for affinity in affinities if affinity}, key=min)
    sockets, per_socket = slurm.get("SocketsPerBoard", ""), slurm.get("CoresPerSocket", "")
    if not (sockets.isdecimal() and per_socket.isdecimal() and slurm.get("CPUs", "").isdecimal()):
        return None
    together = frozenset().union(*sets)
    apart = sum(map(len, sets)) == len(together) == int(slurm["CPUs"])
    if len(sets) != int(sockets) or not apart:
        return None
    core_of: dict[int, int] = {}
    for socket, cpus in enumerate(sets):
        for place, cpu in enumerate(sorted(cpus)):
            core_of[cpu] = socket * int(per_socket) + place % int(per_socket)
    return Cpus(core_of, len(sets))
