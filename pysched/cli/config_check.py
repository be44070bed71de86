"""vgpu config check."""

import dataclasses
import json
import os
import socket
import sys
from pathlib import Path

import click

from gres import layout, planfile
from gres.check import links, run
from gres.check.finding import Finding
from gres.check.state import gather
from gres.document import PlanError
from gres.lines import ReleaseNeeded
from pysched import hosts, paths
from pysched.cli.fail import fail
from pysched.cli.progress import working

DIFFERENT = 1


def slurm_folder() -> Path:
    """The folder of the slurm.conf that Slurm's own commands use."""
    conf = os.environ.get("SLURM_CONF")
    return Path(conf).parent if conf else paths.SYSCONFDIR / "slurm"


@click.command(
    epilog="Exit status: 0 nothing found; 1 something was found; 2 it could not be checked."
)
@click.argument("plan_file", metavar="PLAN", type=click.Path(path_type=Path))
@click.option(
    "--dir", "folder", metavar="DIR", type=click.Path(path_type=Path),
    help="Folder of slurm.conf and what was generated. Default: where Slurm reads it.",
)  # fmt: skip
@click.option("--node", metavar="NAME", help="Name of this node in Slurm. Default: its host name.")
@click.option("--offline", is_flag=True, help="Do not ask slurmctld.")
@click.option(
    "--links", "try_links", is_flag=True,
    help="Also allocate two whole GPUs for a moment, and see whether they are well linked.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(
    *,
    plan_file: Path,
    folder: Path | None,
    node: str | None,
    offline: bool,
    try_links: bool,
    as_json: bool,
) -> None:
    """Compare the plan with installed files, with what Slurm says and with the hardware.

    Run on a node of the plan it also checks what is installed there, and its GPUs. Each finding
    says what is wrong and where, what it leads to, and what to do.

    \b
    Examples:
      vgpu config check plan.yaml
      srun -N4 -w n[1-4] vgpu config check /shared/plan.yaml
      vgpu config check plan.yaml --links
      vgpu config check plan.yaml --json | jq -r '.[].code'
    """
    this_node = node or os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
    try:
        built = layout.build(planfile.read(plan_file))
        with working("asking slurmctld and the GPUs"):
            state = gather(built, folder or slurm_folder(), this_node, ask_slurm=not offline)
    except (PlanError, ReleaseNeeded) as error:
        fail(str(error))
    with working("comparing"):
        findings = run.run(state)
    if try_links:
        with working("waiting for a test allocation"):
            findings += links.check(state, lambda text: click.echo(text, err=True))
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            _print(finding)
        if state.node is None:
            click.echo(f"{this_node} is no node of the plan: no node was looked into", err=True)
        click.echo(_count(findings), err=True)
    sys.exit(DIFFERENT if findings else 0)


def _print(finding: Finding) -> None:
    nodes = f"{hosts.collect(finding.nodes)}: " if finding.nodes else ""
    code = click.style(f"[{finding.code}]", fg="yellow")
    click.echo(f"{click.style(finding.where, bold=True)}: {nodes}{finding.what} {code}")
    click.echo(f"    leads to: {finding.why}")
    click.echo(f"    remedy:   {finding.remedy}")


def _count(findings: list[Finding]) -> str:
    if not findings:
        return "nothing found"
    return f"{len(findings)} finding{'s' if len(findings) > 1 else ''}"
