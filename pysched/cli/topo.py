"""vgpu topo."""

import json
import socket
from pathlib import Path

import click

from pysched import occupancy, paths, vgpuconf
from pysched.cli.fail import fail
from pysched.cli.place import read_topology
from pysched.cli.table import table
from pysched.slurm import SlurmError, scontrol_text
from pysched.topology import Topology, TopologyError, describe, load, nvml, picture, report
from pysched.topology.describe import Used
from pysched.vgpuconf import VgpuConfError
from pysched.vgpud_client import Vgpud, VgpudError


@click.command(
    epilog="Exit status: 0 done; 2 the topology cannot be found out, or the picture not be made."
)
@click.option("--node", metavar="NODE", help="A node of the cluster, by what its agent reported.")
@click.option(
    "--file", "file", metavar="FILE", type=click.Path(path_type=Path),
    help="What `nvidia-smi topo -m` printed, or a report; - for standard input.",
)  # fmt: skip
@click.option(
    "-o", "output", metavar="FILE", type=click.Path(path_type=Path),
    help="Draw a picture: the name ends with .svg or .png.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the topology as JSON.")
@click.option("--report", "as_report", is_flag=True, help="Print the line that an agent reports.")
@click.option(
    "--runtime-dir", metavar="DIR", default=paths.RUNTIME_DIR, type=click.Path(path_type=Path),
    show_default=True, help="vgpud's folder, where plugstack.conf states another one.",
)  # fmt: skip
@click.option("--node-name", metavar="NAME", help="This node's name in vgpu.conf.")
def command(
    *,
    node: str | None,
    file: Path | None,
    output: Path | None,
    as_json: bool,
    as_report: bool,
    runtime_dir: Path,
    node_name: str | None,
) -> None:
    """Show how the GPUs of a node are linked: this one's, another one's, or a file's.

    NV# is a bond of # NVLinks; PIX, PXB, PHB, NODE and SYS are ways over PCIe, the shortest first.
    Of this node, the slots in use are shown as well.

    \b
    Examples:
      vgpu topo
      vgpu topo --node n017 -o n017.svg
      vgpu topo --file collected/n017.topo --json
    """
    if node and file:
        fail("--node and --file exclude each other")
    used: Used = {}
    if file:
        topology, title = read_topology(file), str(file)
    elif node:
        topology, title = of_node(node), node
    else:
        topology, title = of_this_node(), socket.gethostname()
        used = slots_used(topology, runtime_dir, node_name or title.partition(".")[0])
    if output:
        try:
            picture.draw(topology, output, title, used)
        except picture.PictureError as error:
            fail(str(error))
    if as_json:
        click.echo(json.dumps(describe.structure(topology, used), indent=2))
    elif as_report:
        click.echo(report.write(topology))
    elif not output:
        click.echo(table(*describe.columns(topology, used)))
        click.echo(describe.summary(topology))


def of_this_node() -> Topology:
    try:
        return nvml.read()
    except nvml.NvmlError as error:
        fail(str(error))


def of_node(name: str) -> Topology:
    try:
        nodes = scontrol_text.nodes([name])
        text = nodes[0].report if nodes else None
        if text is None:
            fail(f"node {name} has reported no topology: is vgpu-agent running there?")
        return load.parse(text, f"report of {name}")
    except (SlurmError, TopologyError) as error:
        fail(str(error))


def slots_used(topology: Topology, runtime_dir: Path, node: str) -> Used:
    """Per GPU; nothing where vgpu.conf or vgpud does not say."""
    try:
        conf = vgpuconf.read(paths.VGPU_CONF).node(node)
        state = occupancy.of(conf, Vgpud(runtime_dir).bindings())
    except (VgpuConfError, VgpudError):
        return {}
    return {
        index: (
            sum(state.taken.get(gpu.minor, {}).values()),
            sum(state.places[gpu.minor].values()),
        )
        for index, gpu in enumerate(topology.gpus)
        if gpu.minor is not None and gpu.minor in state.places
    }
