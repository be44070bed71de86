"""A topology as a picture: GPUs on a circle by NUMA node, links as wide as their bandwidth."""

import math
from itertools import combinations, groupby
from pathlib import Path as FilePath
from typing import Any

from pysched.topology.describe import Used
from pysched.topology.model import Ranges, Topology
from pysched.topology.text import ranges_text

FORMATS = ("svg", "png")
SIZE = 8.0
RADIUS = 1.0
DISC = 0.17
GAP = 0.8
"""Extra room between two NUMA nodes on the circle, in places of a GPU."""

WIDEST = 9.0
NVLINK_COLOURS = ("#76b900", "#4b7f00", "#a3d65c", "#2f5200")
PCIE_COLOURS = ("#8c8c8c", "#b0b0b0", "#cccccc", "#dedede", "#ebebeb")
DISC_COLOUR, USED_COLOUR, EDGE_COLOUR = "#f2f2f2", "#e4572e", "#333333"

Point = tuple[float, float]


class PictureError(Exception):
    """One sentence: why there is no picture."""


def draw(topology: Topology, path: FilePath, title: str, used: Used) -> None:
    """Write the picture; its kind is what the name ends with."""
    if path.suffix.lower().lstrip(".") not in FORMATS:
        raise PictureError(f"{path}: the name of a picture ends with .{' or .'.join(FORMATS)}")
    try:
        import matplotlib as mpl  # noqa: PLC0415 (optional, and slow to load)
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise PictureError("a picture needs matplotlib: pip install slurm-vgpu[picture]") from None
    figure = Figure(figsize=(SIZE, SIZE))
    axes = figure.add_axes((0.02, 0.02, 0.96, 0.9))
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_title(title)
    at = positions(topology)
    _draw_links(axes, topology, at)
    _draw_gpus(axes, topology, at, used)
    _draw_nodes(axes, topology, at)
    axes.set_xlim(-1.65, 1.65)
    axes.set_ylim(-1.65, 1.65)
    # The same machine gives the same file.
    with mpl.rc_context({"svg.hashsalt": "vgpu"}):
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else {}
        try:
            figure.savefig(path, metadata=metadata)
        except OSError as error:
            raise PictureError(f"{path} cannot be written: {error.strerror}") from None


def positions(topology: Topology) -> dict[int, Point]:
    """Where each GPU stands: clockwise from the top, NUMA node after NUMA node."""
    groups = [list(group) for _, group in by_domain(topology)]
    places = len(topology) + (GAP * len(groups) if len(groups) > 1 else 0.0)
    at, place = {}, 0.0
    for group in groups:
        for index in group:
            angle = math.pi / 2 - 2 * math.pi * (place + 0.5) / places
            at[index] = (RADIUS * math.cos(angle), RADIUS * math.sin(angle))
            place += 1
        place += GAP
    return at


def by_domain(topology: Topology) -> list[tuple[Ranges, list[int]]]:
    """GPUs by what CPUs they are close to."""
    ordered = sorted(range(len(topology)), key=lambda index: (topology.gpus[index].domain, index))
    grouped = groupby(ordered, key=lambda index: topology.gpus[index].domain)
    return [(domain, list(group)) for domain, group in grouped]


def _draw_links(axes: Any, topology: Topology, at: dict[int, Point]) -> None:
    """Weak links first, so that strong ones lie above; one entry of the legend for each kind."""
    pairs = list(combinations(range(len(topology)), 2))
    kinds = {(topology.bandwidth(*pair), str(topology.link(*pair))) for pair in pairs}
    nvlinks = sorted((kind for kind in kinds if kind[1].startswith("NV")), reverse=True)
    paths = sorted((kind for kind in kinds if not kind[1].startswith("NV")), reverse=True)
    colours = dict(zip(nvlinks, NVLINK_COLOURS * len(nvlinks), strict=False))
    colours |= dict(zip(paths, PCIE_COLOURS * len(paths), strict=False))
    most = max((bandwidth for bandwidth, _ in kinds), default=1.0)
    for kind in sorted(kinds):
        bandwidth, name = kind
        style = {"color": colours[kind], "linewidth": max(0.8, WIDEST * bandwidth / most)}
        for one, other in pairs:
            if (topology.bandwidth(one, other), str(topology.link(one, other))) == kind:
                ends = [at[one], at[other]]
                axes.plot(*zip(*ends, strict=True), zorder=1 + bandwidth / most, **style)
        axes.plot([], [], label=f"{name}, {bandwidth:g} GB/s", **style)
    if kinds:
        axes.legend(loc="lower right", frameon=False, fontsize=9)


def _draw_gpus(axes: Any, topology: Topology, at: dict[int, Point], used: Used) -> None:
    from matplotlib.patches import Circle, Wedge  # noqa: PLC0415

    for index, centre in at.items():
        axes.add_patch(Circle(centre, DISC, facecolor=DISC_COLOUR, edgecolor=EDGE_COLOUR, zorder=3))
        text = f"GPU {index}"
        if index in used:
            taken, slots = used[index]
            turn = 360 * taken / slots if slots else 0
            slice_ = Wedge(centre, DISC, 90 - turn, 90, facecolor=USED_COLOUR, zorder=4)
            axes.add_patch(slice_)
            text += f"\n{taken}/{slots}"
        axes.text(*centre, text, ha="center", va="center", fontsize=9, zorder=5)


def _draw_nodes(axes: Any, topology: Topology, at: dict[int, Point]) -> None:
    """The name of each NUMA node outside the circle, beside the middle of its GPUs."""
    for domain, group in by_domain(topology):
        if not domain:
            continue
        numa = bool(topology.gpus[group[0]].numa)
        x = sum(at[index][0] for index in group)
        y = sum(at[index][1] for index in group)
        length = math.hypot(x, y)
        x, y = (x / length, y / length) if length > 1e-6 else (0.0, 1.0)
        text = f"{'NUMA' if numa else 'CPUs'} {ranges_text(domain)}"
        axes.text(1.45 * x, 1.45 * y, text, ha="center", va="center", fontsize=10, weight="bold")
