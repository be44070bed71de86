"""Bandwidths of links: what one direction can use, in GB/s.

These are the rates that NCCL plans with, below the raw ones. They are keyed on the generation of a
link, never on the name of a machine or a card.
"""

from dataclasses import dataclass

NVLINK = {"1": 18.0, "2": 20.0, "3": 20.0, "3-board": 12.0, "4": 20.6, "5": 40.1}
"""Per link. "3-board": the slower links of workstation boards (compute capability 8.6)."""

PCIE_LANES = 16
PCIE = {1: 3.0, 2: 6.0, 3: 12.0, 4: 24.0, 5: 48.0, 6: 96.0}
"""A slot of 16 lanes, by generation."""

SOCKET = 12.0
"""Between two sockets of which nothing is known."""

SOCKET_AMD = 16.0
SOCKET_POWER9 = 32.0
SOCKET_INTEL = {79: 6.0, 85: 10.0, 143: 22.0, 207: 40.0}
"""By the model number of family 6: Broadwell, Skylake, Sapphire Rapids, Emerald Rapids."""

# What a path through the host leaves of a slot's rate. Slightly falling, so that of two paths with
# nearly the same rate the shorter one wins.
HOST_BRIDGE = 5 / 6
WITHIN_NODE = 0.8
BETWEEN_NODES = 0.75


@dataclass(frozen=True)
class Rates:
    """What one GPU can use: GB/s per NVLink, GB/s of its PCIe slot."""

    nvlink: float
    pcie: float


NVLINK_VERSION = {1: "1", 2: "2", 3: "2", 4: "3", 5: "3", 6: "4", 7: "5"}
"""NVML's version of a link is an enumeration, not the generation: an A100 says 5."""

BOARD_CAPABILITY = (8, 6)


def nvlink_rate(version: int, capability: tuple[int, int]) -> float:
    """GB/s per link for NVML's version of it; the newest known where NVML knows a newer one."""
    generation = NVLINK_VERSION.get(version, "5")
    if generation == "3" and capability == BOARD_CAPABILITY:
        generation = "3-board"
    return NVLINK[generation]


def pcie_rate(generation: int, lanes: int) -> float:
    """GB/s of a slot; the nearest known generation where it is not in the table."""
    known = min(PCIE, key=lambda each: abs(each - generation))
    return PCIE[known] * min(lanes, PCIE_LANES) / PCIE_LANES


def guess(links: int) -> Rates:
    """Rates for a map that names no generation, from the number of links that a GPU has in all.

    All links of a machine are alike, so a wrong guess scales NVLink against PCIe but never swaps
    two sets of GPUs that are both fully linked.
    """
    for most, generation, pcie in (
        (0, "3", 4),
        (2, "2", 3),
        (4, "3-board", 4),
        (6, "2", 3),
        (12, "3", 4),
    ):
        if links <= most:
            return Rates(NVLINK[generation], PCIE[pcie])
    return Rates(NVLINK["4"], PCIE[5])


def socket_rate(cpuinfo: str) -> float:
    """GB/s between the sockets of the machine whose /proc/cpuinfo this is."""
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    if fields.get("vendor_id") == "AuthenticAMD":
        return SOCKET_AMD
    if fields.get("cpu", "").startswith("POWER9"):
        return SOCKET_POWER9
    if fields.get("vendor_id") == "GenuineIntel" and fields.get("cpu family") == "6":
        return SOCKET_INTEL.get(int(fields.get("model", "0")), SOCKET)
    return SOCKET
