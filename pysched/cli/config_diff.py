"""vgpu config diff."""

import dataclasses
import json
import sys
from pathlib import Path

import click

from gres import diff, layout, planfile
from gres.check.state import gather
from gres.diff import Difference, Job
from gres.document import PlanError
from gres.lines import ReleaseNeeded
from pysched import hosts
from pysched.cli.config_check import DIFFERENT, slurm_folder
from pysched.cli.fail import fail
from pysched.cli.progress import working


@click.command(epilog="Exit status: 0 no change; 1 there are changes; 2 an error.")
@click.argument("plan_file", metavar="PLAN", type=click.Path(path_type=Path))
@click.option(
    "--dir", "folder", metavar="DIR", type=click.Path(path_type=Path),
    help="Folder of what is installed now. Default: where Slurm reads it.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print changes, jobs and steps as JSON.")
def command(*, plan_file: Path, folder: Path | None, as_json: bool) -> None:
    """Show what a new plan would change, on which nodes, and what has to be done in which order.

    Nodes whose slots or promises change must be drained first: the jobs that run there now are
    listed. Nothing is changed.

    \b
    Examples:
      vgpu config diff new-plan.yaml
      vgpu config diff new-plan.yaml --json | jq -r '.steps[]'
    """
    where = folder or slurm_folder()
    try:
        with working("comparing"):
            built = layout.build(planfile.read(plan_file))
            state = gather(built, where, "", ask_slurm=False)
            difference = diff.compare(state)
    except (PlanError, ReleaseNeeded) as error:
        fail(str(error))
    jobs = diff.jobs(difference.nodes(diff.Need.DRAIN))
    steps = diff.steps(difference, plan_file, where)
    if as_json:
        click.echo(json.dumps(_as_data(difference, jobs, steps), indent=2))
    else:
        _print(difference, jobs, steps)
    sys.exit(DIFFERENT if difference else 0)


def _as_data(difference: Difference, jobs: list[Job], steps: list[str]) -> dict[str, object]:
    return {
        "cluster": [change.text for change in difference.cluster],
        "nodes": [
            {
                "nodes": hosts.collect(names),
                "need": max(change.need for change in changes).name.lower(),
                "changes": [change.text for change in changes],
            }
            for changes, names in difference.changes.items()
        ],
        "jobs": [dataclasses.asdict(job) for job in jobs],
        "steps": steps,
    }


def _print(difference: Difference, jobs: list[Job], steps: list[str]) -> None:
    if not difference:
        click.echo("no change")
        return
    for change in difference.cluster:
        click.echo(f"cluster: {change.text} ({diff.MEANING[change.need]})")
    for changes, names in difference.changes.items():
        need = max(change.need for change in changes)
        click.echo(f"{click.style(hosts.collect(names), bold=True)}: {diff.MEANING[need]}")
        for change in changes:
            click.echo(f"    {change.text}")
    if jobs:
        click.echo("jobs there now:")
        for job in jobs:
            click.echo(f"    {job.id} of {job.user} on {job.nodes}")
    click.echo("steps:")
    for number, step in enumerate(steps, 1):
        click.echo(f"  {number}. {step}")
