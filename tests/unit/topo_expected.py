"""What each file of tests/data/topo says, written by hand from the pictures of the machines."""

from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from pysched.topology import Link
from pysched.topology import Path as Way

FOLDER = Path(__file__).parents[1] / "data" / "topo"


@dataclass(frozen=True)
class Expected:
    """``links``: pairs that differ from ``other``. Affinities: text -> how many GPUs, in order."""

    gpus: int
    other: str
    links: dict[str, str] = field(default_factory=dict)
    cpus: tuple[tuple[str, int], ...] = ()
    numa: tuple[tuple[str, int], ...] = ()
    nics: dict[str, str] = field(default_factory=dict)
    switch: bool = False

    def link(self, one: int, other: int) -> Link:
        text = self.other
        for name, pairs in self.links.items():
            if f"{one}-{other}" in pairs.split():
                text = name
        if text.startswith("NV"):
            return Link(nvlinks=int(text[2:]))
        return Link(path=Way[text])

    def matrix(self) -> dict[tuple[int, int], Link]:
        return {pair: self.link(*pair) for pair in combinations(range(self.gpus), 2)}


CUBE_MESH = {
    "NV1": "0-1 0-2 1-3 2-6 3-7 4-5 4-6 5-7",
    "NV2": "0-3 0-4 1-2 1-5 2-3 4-7 5-6 6-7",
}
HALVES = (("0", 4), ("1", 4))

MACHINES = {
    "a100_4gpu_mesh.txt": Expected(
        4,
        "NV4",
        cpus=(("0-23", 2), ("24-47", 2)),
        numa=(("0", 2), ("1", 2)),
        nics={"mlx5_0": "NODE NODE SYS SYS"},
    ),
    "a100_pcie_4gpu_bridge_pairs.txt": Expected(
        4,
        "SYS",
        {"NV12": "0-1 2-3"},
        cpus=(("0-51,104-155", 2), ("52-103,156-207", 2)),
        numa=(("0", 2), ("1", 2)),
    ),
    "a100_pcie_one_pair_bridged.txt": Expected(
        4,
        "SYS",
        {"NV12": "0-1", "NODE": "2-3"},
        cpus=(("0-27,56-83", 2), ("28-55,84-111", 2)),
        numa=(("0", 2), ("1", 2)),
        nics={"mlx5_0": "NODE NODE SYS SYS", "mlx5_1": "NODE NODE SYS SYS"},
    ),
    "a_series_4gpu_nv4_pairs.txt": Expected(
        4,
        "SYS",
        {"NV4": "0-1 2-3"},
        cpus=(("0-23,48-71", 2), ("24-47,72-95", 2)),
        numa=(("0", 2), ("1", 2)),
        nics={"NIC0": "SYS SYS PXB PIX"},
    ),
    "aws_p4d_a100_no_nic.txt": Expected(
        8, "NV12", cpus=(("0-23,48-71", 4), ("24-47,72-95", 4)), numa=HALVES, switch=True
    ),
    "dgx1_v100_4nic.txt": Expected(
        8,
        "SYS",
        CUBE_MESH,
        cpus=(("0-19,40-59", 4), ("20-39,60-79", 4)),
        nics={
            "mlx5_0": "PIX PIX PHB PHB SYS SYS SYS SYS",
            "mlx5_2": "SYS SYS SYS SYS PIX PIX PHB PHB",
            "mlx5_1": "PHB PHB PIX PIX SYS SYS SYS SYS",
            "mlx5_3": "SYS SYS SYS SYS PHB PHB PIX PIX",
        },
    ),
    "dgx_a100_12nic.txt": Expected(
        8,
        "NV12",
        cpus=(
            ("48-63,176-191", 2),
            ("16-31,144-159", 2),
            ("112-127,240-255", 2),
            ("80-95,208-223", 2),
        ),
        numa=(("3", 2), ("1", 2), ("7", 2), ("5", 2)),
        nics={
            "mlx5_0": "PXB PXB SYS SYS SYS SYS SYS SYS",
            "mlx5_1": "PXB PXB SYS SYS SYS SYS SYS SYS",
            "mlx5_2": "SYS SYS PXB PXB SYS SYS SYS SYS",
            "mlx5_3": "SYS SYS PXB PXB SYS SYS SYS SYS",
            "mlx5_4": "SYS SYS SYS SYS SYS SYS SYS SYS",
            "mlx5_5": "SYS SYS SYS SYS SYS SYS SYS SYS",
            "mlx5_6": "SYS SYS SYS SYS PXB PXB SYS SYS",
            "mlx5_7": "SYS SYS SYS SYS PXB PXB SYS SYS",
            "mlx5_8": "SYS SYS SYS SYS SYS SYS PXB PXB",
            "mlx5_9": "SYS SYS SYS SYS SYS SYS PXB PXB",
            "mlx5_10": "SYS SYS SYS SYS SYS SYS SYS SYS",
            "mlx5_11": "SYS SYS SYS SYS SYS SYS SYS SYS",
        },
        switch=True,
    ),
    "dual_nv2.txt": Expected(2, "NV2", cpus=(("0-23", 2),)),
    "gb200_4gpu_tray.txt": Expected(
        4, "NV18", cpus=(("0-71", 2), ("72-143", 2)), numa=(("0", 2), ("1", 2)), switch=True
    ),
    "h100_4gpu_nv6.txt": Expected(
        4,
        "NV6",
        cpus=(("6,14,22,30", 1), ("4,12,20,28", 1), ("7,15,23,31", 1), ("5,13,21,29", 1)),
        numa=(("3", 1), ("1", 1), ("7", 1), ("5", 1)),
        nics={
            "NIC0": "PIX SYS SYS SYS",
            "NIC1": "SYS PIX SYS SYS",
            "NIC2": "SYS SYS PIX SYS",
            "NIC3": "SYS SYS SYS PIX",
        },
    ),
    "h100_4of8_in_container.txt": Expected(
        4, "NV18", cpus=(("44-51,148-155", 1), ("", 3)), numa=(("0", 1), ("1", 3)), switch=True
    ),
    "h100_8gpu_no_nic.txt": Expected(
        8, "NV18", cpus=(("0-51,104-155", 4), ("52-103,156-207", 4)), numa=HALVES, switch=True
    ),
    "h20_8gpu_8nic.txt": Expected(
        8,
        "NV18",
        cpus=(("0-47,96-143", 4), ("48-95,144-191", 4)),
        numa=HALVES,
        nics={
            f"NIC{nic}": " ".join(
                "PIX" if gpu == nic else "NODE" if gpu // 4 == nic // 4 else "SYS"
                for gpu in range(8)
            )
            for nic in range(8)
        },
        switch=True,
    ),
    "hgx_a100_10nic.txt": Expected(
        8,
        "NV12",
        cpus=(("0-63,128-191", 4), ("64-127,192-254", 4)),
        numa=HALVES,
        nics={
            "NIC0": "SYS SYS PXB PXB SYS SYS SYS SYS",
            "NIC1": "SYS SYS PXB PXB SYS SYS SYS SYS",
            "NIC2": "PXB PXB SYS SYS SYS SYS SYS SYS",
            "NIC3": "PXB PXB SYS SYS SYS SYS SYS SYS",
            "NIC4": "SYS SYS SYS SYS SYS SYS PXB PXB",
            "NIC5": "SYS SYS SYS SYS SYS SYS PXB PXB",
            "NIC6": "SYS SYS SYS SYS SYS SYS SYS SYS",
            "NIC7": "SYS SYS SYS SYS SYS SYS SYS SYS",
            "NIC8": "SYS SYS SYS SYS PXB PXB SYS SYS",
            "NIC9": "SYS SYS SYS SYS PXB PXB SYS SYS",
        },
        switch=True,
    ),
    "hgx_h100_12nic.txt": Expected(
        8,
        "NV18",
        cpus=(("0-55,112-167", 4), ("56-111,168-223", 4)),
        numa=HALVES,
        nics={
            "NIC0": "PIX PXB NODE NODE SYS SYS SYS SYS",
            "NIC1": "PXB PIX NODE NODE SYS SYS SYS SYS",
            "NIC2": "NODE NODE PIX PXB SYS SYS SYS SYS",
            "NIC3": "NODE NODE PXB PIX SYS SYS SYS SYS",
            "NIC4": "NODE NODE NODE NODE SYS SYS SYS SYS",
            "NIC5": "NODE NODE NODE NODE SYS SYS SYS SYS",
            "NIC6": "SYS SYS SYS SYS PIX PXB NODE NODE",
            "NIC7": "SYS SYS SYS SYS PXB PIX NODE NODE",
            "NIC8": "SYS SYS SYS SYS NODE NODE PIX PXB",
            "NIC9": "SYS SYS SYS SYS NODE NODE PXB PIX",
            "NIC10": "SYS SYS SYS SYS NODE NODE NODE NODE",
            "NIC11": "SYS SYS SYS SYS NODE NODE NODE NODE",
        },
        switch=True,
    ),
    "k80_4gpu_node.txt": Expected(4, "NODE", cpus=(("0-11", 4),)),
    "l40s_4gpu_pcie.txt": Expected(
        4,
        "SYS",
        {"NODE": "0-1 2-3"},
        cpus=(("0-95,192-287", 2), ("96-191,288-383", 2)),
        numa=(("0", 2), ("1", 2)),
        nics={"NIC0": "SYS SYS NODE NODE", "NIC1": "SYS SYS NODE NODE"},
    ),
    "leonardo_like_a100_4gpu_4nic.txt": Expected(
        4,
        "NV4",
        cpus=(("0", 4),),
        numa=(("0-1", 4),),
        nics={
            "NIC0": "PXB SYS SYS SYS",
            "NIC1": "SYS PXB SYS SYS",
            "NIC2": "SYS SYS PXB SYS",
            "NIC3": "SYS SYS SYS PXB",
        },
    ),
    "pcie_4gpu_phb.txt": Expected(4, "PHB", cpus=(("0-47", 4),), numa=(("0", 4),)),
    "pcie_8gpu_node_sys.txt": Expected(
        8,
        "SYS",
        {"NODE": "0-1 0-2 0-3 1-2 1-3 2-3 4-5 4-6 4-7 5-6 5-7 6-7"},
        cpus=(("0-31,64-95", 4), ("32-63,96-123", 4)),
        numa=HALVES,
    ),
    "pcie_8gpu_pix_node.txt": Expected(
        8,
        "NODE",
        {"PIX": "0-1 0-2 0-3 1-2 1-3 2-3 4-5 4-6 4-7 5-6 5-7 6-7"},
        cpus=(("0-23,48-71", 8),),
        numa=(("0", 8),),
    ),
    "pcie_8gpu_pix_phb_sys.txt": Expected(
        8,
        "SYS",
        {"PIX": "0-1 2-3 4-5 6-7", "PHB": "0-2 0-3 1-2 1-3 4-6 4-7 5-6 5-7"},
        cpus=(("0-13,28-41", 4), ("14-27,42-55", 4)),
        numa=HALVES,
    ),
    "rtx_dual_phb.txt": Expected(2, "PHB", cpus=(("0-11", 2),)),
    "v100_cloud_vm_phb.txt": Expected(8, "PHB", CUBE_MESH, cpus=(("0-63", 8),), numa=(("0-1", 8),)),
    "v100_sxm2_8gpu_1nic.txt": Expected(
        8,
        "SYS",
        CUBE_MESH,
        cpus=(("0-19,40-59", 4), ("20-39,60-79", 4)),
        numa=HALVES,
        nics={"NIC0": "NODE NODE NODE NODE SYS SYS SYS SYS"},
    ),
}

DAMAGED = {
    "a100_vm_garbled_cells.txt": ':4:73: expected PSB, PIX, PXB, PHB, NODE, SYS, found "PH0-115"',
    "dell_hgx_pcie_view_topo_mp_6rows.txt": ":10:1: the row GPU6 is missing: the text is cut short",
    "dgx2_v100_16gpu_first4rows.txt": ":8:1: the row GPU4 is missing: the text is cut short",
}
"""Files whose public copy is damaged, and what must be said about them."""
