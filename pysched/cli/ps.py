"""vgpu ps."""

import dataclasses
import json
import pwd
from pathlib import Path

import click

from pysched import paths, sizes
from pysched.cli.fail import fail
from pysched.cli.table import table
from pysched.vgpud_client import Binding, Vgpud, VgpudError

_HEADINGS = ["JOB", "USER", "SLOT", "GPU", "TYPE", "QUOTA", "USED", "PEAK", "PROCS"]


@click.command(epilog="Exit status: 0 done; 2 vgpud does not answer.")
@click.option(
    "--runtime-dir", metavar="DIR", default=paths.RUNTIME_DIR, type=click.Path(path_type=Path),
    show_default=True, help="vgpud's folder, where plugstack.conf states another one.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print all that vgpud knows as JSON.")
def command(*, runtime_dir: Path, as_json: bool) -> None:
    """Show the vGPUs that jobs hold on this node, their memory quota and what is used of it.

    USED is what the vGPU's processes have allocated now, PEAK the most they ever had.

    \b
    Examples:
      vgpu ps
      vgpu ps --json | jq '.[] | {job, charged}'
    """
    try:
        bindings = list(Vgpud(runtime_dir).bindings())
    except VgpudError as error:
        fail(str(error))
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(binding) for binding in bindings], indent=2))
    else:
        click.echo(as_table(bindings))


def as_table(bindings: list[Binding]) -> str:
    ordered = sorted(bindings, key=lambda binding: (binding.job, binding.vgpu.slot))
    rows = [_row(binding) for binding in ordered]
    return table(_HEADINGS, rows, right=["JOB", "SLOT", "GPU", "QUOTA", "USED", "PEAK", "PROCS"])


def _row(binding: Binding) -> list[str]:
    vgpu = binding.vgpu
    more = f"+{vgpu.slots - 1}" if vgpu.slots > 1 else ""
    memory = [vgpu.quota, binding.charged, binding.peak]
    return [
        str(binding.job),
        _user(binding.uid),
        f"{vgpu.slot}{more}",
        str(vgpu.gpu),
        vgpu.type,
        *map(sizes.approximate_size, memory),
        str(binding.processes),
    ]


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
