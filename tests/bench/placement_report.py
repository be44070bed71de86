"""python -m tests.bench.placement_report [FOLDER]: what placement gains over Slurm's own choices.

Writes placement.md and placement.svg into the folder (docs/results). Modelled, not measured: ring
all-reduce bandwidth is the slowest hop of the ring in rank order.
"""

import random
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pysched.topology import Topology
from tests.bench import choices, machines

SAMPLES = 1000
COUNTS = (2, 4)
FOLDER = Path(__file__).parents[2] / "docs" / "results"
COLOURS = ("#4b7f00", "#5b8bd0", "#e4572e", "#9a9a9a", "#d0d0d0")

HEAD = """\
# What placement gains

Modelled, not measured on hardware: `python -m tests.bench.placement_report` makes this page.

Each machine is a recorded `nvidia-smi topo -m` ([tests/data/topo](../../tests/data/topo)). It is
half busy: each slot is taken with probability one half, {samples} states each. A job asks for 2 or
for 4 vGPUs. The figure is the bandwidth of a ring all-reduce in GB/s: the slowest hop of the ring
in rank order, with the rates of [placement.md](../placement.md). Each cell has the mean and the
worst of all states.

A ring with two ranks on one GPU counts 0: communication libraries refuse that, and so does
slurm-vgpu, which binds the slots of a step to different GPUs. Slurm alone counts slots and does not
know about it.

- **slurm-vgpu**: what `vgpu place` answers.
- **Slurm to 23.11**: the first free slot, then those with the most NVLinks to its GPU (`Links=` in
  gres.conf; slots of the same GPU count as not linked).
- **Slurm from 24.05**: the same with the fewest NVLinks first, which is what `--gres` gets there.
- **first fit**: the free slots in their order, which is what Slurm does without `Links=`.
- **random**: any free slots.

![Mean ring bandwidth of four vGPUs, slurm-vgpu = 1](placement.svg)
"""

TAIL = """\
## What to make of it

- Where every pair is linked alike (NVSwitch, full meshes, one PCIe level) links give nothing to
  choose, and the whole difference comes from slots that share a GPU.
- On bridged pairs a ring of four crosses the sockets whatever is chosen: with whole cards nobody
  gains. A ring of two is where the bridge counts.
- On the cube mesh of a DGX-1V the double links are one ring of all eight GPUs. No ring of four has
  double links only, so 20 GB/s (a single link) is the best that four can have, and the gain over
  Slurm to 23.11 with whole cards is {mesh_whole:.2f}x. With four slots a card it is
  {mesh_slots:.1f}x, because the greedy choice then takes several slots of the one best linked GPU.
"""


@dataclass(frozen=True)
class Outcome:
    mean: float
    worst: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} / {self.worst:.1f}"


def outcomes(topology: Topology, count: int, slots: int) -> dict[str, Outcome]:
    """What each chooser reaches, over the same states."""
    rng = random.Random(count)
    states = [choices.half_busy(topology, count, rng, slots) for _ in range(SAMPLES)]
    found = {}
    for name, choose in choices.CHOOSERS.items():
        rings = [choices.ring(topology, choose(free, count, rng)) for free in states]
        found[name] = Outcome(statistics.mean(rings), min(rings))
    return found


def table(maps: dict[str, Topology], count: int, slots: int) -> Iterator[str]:
    yield f"| machine | {' | '.join(choices.CHOOSERS)} |"
    yield "|---|" + "---:|" * len(choices.CHOOSERS)
    for name, topology in maps.items():
        cells = outcomes(topology, count, slots).values()
        yield f"| {name} | {' | '.join(map(str, cells))} |"


def uneven(topology: Topology) -> bool:
    return len({data["bandwidth"] for _, _, data in topology.graph.edges(data=True)}) > 1


def gain(topology: Topology, slots: int) -> float:
    found = outcomes(topology, 4, slots)
    return found["slurm-vgpu"].mean / found["Slurm to 23.11"].mean


def draw(maps: dict[str, Topology], path: Path) -> None:
    """Bars for each machine: the mean for four vGPUs, slurm-vgpu's being 1."""
    import matplotlib as mpl  # noqa: PLC0415 (only the picture needs it)
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(9, 0.55 * len(maps) + 1.5))
    axes = figure.add_axes((0.33, 0.08, 0.64, 0.86))
    names, height = list(choices.CHOOSERS), 0.8 / len(choices.CHOOSERS)
    for row, topology in enumerate(maps.values()):
        found = outcomes(topology, 4, choices.SLOTS)
        for bar, (name, colour) in enumerate(zip(names, COLOURS, strict=True)):
            share = found[name].mean / found[names[0]].mean
            label = name if row == 0 else None
            axes.barh(row + bar * height, share, height, color=colour, label=label)
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(maps))], list(maps), fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.05)
    axes.set_title(
        "Mean ring bandwidth of four vGPUs on half busy machines, slurm-vgpu = 1", fontsize=9
    )
    figure.legend(loc="lower center", ncols=len(names), frameon=False, fontsize=8)
    with mpl.rc_context({"svg.hashsalt": "vgpu"}):
        figure.savefig(path, metadata={"Date": None})


def page(maps: dict[str, Topology]) -> Iterator[str]:
    yield HEAD.format(samples=SAMPLES)
    for count in COUNTS:
        yield f"## {count} vGPUs, {choices.SLOTS} slots a GPU\n"
        yield from table({n: t for n, t in maps.items() if len(t) >= count}, count, choices.SLOTS)
        yield ""
    yield "## 4 vGPUs, one slot a GPU (whole cards), machines with different links\n"
    yield from table({n: t for n, t in maps.items() if uneven(t) and len(t) > 4}, 4, 1)
    yield ""
    mesh = maps["dgx1_v100_4nic"]
    yield TAIL.format(
        mesh_whole=gain(mesh, 1),
        mesh_slots=gain(mesh, choices.SLOTS),
    )


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    maps = machines.recorded()
    (folder / "placement.md").write_text("\n".join(page(maps)))
    draw(
        {name: topology for name, topology in maps.items() if len(topology) >= 4},
        folder / "placement.svg",
    )


if __name__ == "__main__":
    main()
