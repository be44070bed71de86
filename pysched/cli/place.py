"""vgpu place."""

import dataclasses
import json
import re
import sys
from pathlib import Path

import click

from pysched.cli.fail import fail
from pysched.placement import Affinity, PlacementError, Policy, Request, patterns, place
from pysched.placement.patterns import PatternError
from pysched.topology import Topology, TopologyError, load
from pysched.topology.model import numbers
from pysched.topology.text import parse_ranges

IMPOSSIBLE = 1
ANY_TYPE = ""

_FREE = re.compile(r"([0-9]{1,2})=([0-9]{1,4})")


@click.command(
    epilog="Exit status: 0 placed; 1 not possible with these free slots; 2 the input is not right."
)
@click.option(
    "--file", "file", metavar="FILE", required=True, type=click.Path(path_type=Path),
    help="What `nvidia-smi topo -m` printed, or a node's report; - for standard input.",
)  # fmt: skip
@click.option(
    "-n", "ranks", metavar="N", required=True, type=click.IntRange(1, patterns.MOST_RANKS),
    help="vGPUs, each on a GPU of its own.",
)  # fmt: skip
@click.option(
    "--comm", metavar="PATTERN", default=patterns.DEFAULT, show_default=True,
    help=f"Who talks to whom: {patterns.EXPECTED}.",
)  # fmt: skip
@click.option(
    "--affinity", type=click.Choice([each.value for each in Affinity]), default="prefer_nvlink",
    show_default=True, help="What the GPUs must have in common.",
)  # fmt: skip
@click.option(
    "--free", metavar="G=K,...",
    help="Free slots of the GPUs. Without it each has one; with it those that are not named have "
    "none, or one if all that are named have none.",
)  # fmt: skip
@click.option(
    "--policy", type=click.Choice([each.value for each in Policy]), default="spread",
    show_default=True, help="Where links do not decide: to the emptiest GPUs or to the fullest.",
)  # fmt: skip
@click.option("--cpus", metavar="RANGES", help="CPUs of the step, as 0-7,16-23.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def command(
    *,
    file: Path,
    ranks: int,
    comm: str,
    affinity: str,
    free: str | None,
    policy: str,
    cpus: str | None,
    as_json: bool,
) -> None:
    """Show which GPUs of a machine a step would get, in the order of its ranks.

    The machine comes from a file: nothing is asked of this node, and nothing is bound.

    \b
    Examples:
      vgpu place --file dgx1.topo -n 4 --comm ring
      vgpu place --file node.topo -n 2 --free 0=0,1=3,2=4,3=4 --json
      nvidia-smi topo -m | vgpu place --file - -n 8 --comm tp4xdp2
    """
    topology = read_topology(file)
    counts = read_free(free, len(topology))
    most = max(counts.values(), default=0) or 1
    try:
        request = Request(
            demand=read_pattern(comm, ranks),
            types=(ANY_TYPE,) * ranks,
            pattern=comm,
            affinity=Affinity(affinity),
            policy=Policy(policy),
            cpus=numbers(parse_ranges(cpus)) if cpus else frozenset(),
        )
        slots = {gpu: {ANY_TYPE: count} for gpu, count in counts.items()}
        load_of = {gpu: 1 - count / most for gpu, count in counts.items()}
        found = place(topology, slots, request, load_of)
    except PlacementError as error:
        fail(str(error), IMPOSSIBLE)
    except (PatternError, ValueError) as error:
        fail(str(error))
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(found)))
    else:
        click.echo(found.why)


def read_topology(file: Path) -> Topology:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        return load.parse(text, "standard input" if str(file) == "-" else str(file))
    except TopologyError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        fail(f"{file} is not UTF-8 text")


def read_pattern(comm: str, ranks: int) -> patterns.Matrix:
    """The demand of a pattern, or of the matrix in the file of that name."""
    try:
        return patterns.matrix(comm, ranks)
    except PatternError:
        if not Path(comm).is_file():
            raise
    demand = patterns.read(Path(comm).read_text(encoding="utf-8", errors="replace"), comm)
    if len(demand) != ranks:
        raise PatternError(f"{comm} is a matrix for {len(demand)} ranks, not for {ranks}")
    return demand


def read_free(text: str | None, gpus: int) -> dict[int, int]:
    """GPU -> free slots."""
    if text is None:
        return dict.fromkeys(range(gpus), 1)
    found: dict[int, int] = {}
    for part in text.split(","):
        match = _FREE.fullmatch(part)
        if match is None:
            fail(f'--free: expected GPU=COUNT such as 0=3, found "{part}"')
        gpu, count = int(match[1]), int(match[2])
        if gpu >= gpus or gpu in found:
            fail(f"--free: GPU {gpu} is {'named twice' if gpu in found else f'not one of {gpus}'}")
        found[gpu] = count
    others = 0 if any(found.values()) else 1
    return {gpu: found.get(gpu, others) for gpu in range(gpus)}
