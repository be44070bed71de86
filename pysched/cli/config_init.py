"""vgpu config init."""

import socket
from pathlib import Path

import click

from gres import first_plan, write
from gres.sources import collected, live
from gres.sources.machine import Machine, SourceError
from pysched.cli.fail import fail


@click.command(epilog="Exit status: 0 done; 2 an error, nothing was written.")
@click.option(
    "--from", "folder", metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Read what was collected of many nodes in place of asking this node's GPUs.",
)  # fmt: skip
@click.option("--node", metavar="NAME", help="Name of this node in Slurm. Default: its host name.")
@click.option(
    "--split", type=click.IntRange(1, 64), default=4, show_default=True,
    help="How many vGPUs to make of a card.",
)  # fmt: skip
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
    help="Write the plan there, where no file is yet. Default: print it.",
)  # fmt: skip
def command(*, folder: Path | None, node: str | None, split: int, output: Path | None) -> None:
    """Write a first plan from the GPUs that are there, ready to edit.

    For many nodes, collect in one folder, for each node: nvidia-smi -q -x as NODE.xml, nvidia-smi
    topo -m as NODE.topo, and if you can slurmd -C as NODE.slurmd and lscpu -p as NODE.lscpu.

    \b
    Examples:
      vgpu config init -o plan.yaml
      vgpu config init --from collected/ --split 2
    """
    try:
        machines = collected.read(folder) if folder else [_this_node(node)]
        text = first_plan.write(machines, split)
        if output is None:
            click.echo(text, nl=False)
            return
        if output.exists():
            fail(f"{output}: is there already; a plan is not replaced")
        write.write(output.parent, {output.name: text})
    except (SourceError, write.WriteError) as error:
        fail(str(error))
    click.echo(f"{output}: written; edit it, then run vgpu config generate {output} -o /etc/slurm")


def _this_node(name: str | None) -> Machine:
    machine = live.read(name or socket.gethostname().partition(".")[0])
    if not machine.gpus:
        raise SourceError("NVML says that this node has no GPU; use --from for other nodes")
    return machine
