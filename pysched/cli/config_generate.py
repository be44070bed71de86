"""vgpu config generate."""

import json
from pathlib import Path

import click

from gres import layout, planfile, release, render, write
from gres.document import PlanError
from gres.layout import Layout
from gres.lines import ReleaseNeeded
from pysched.cli.fail import fail
from pysched.cli.progress import working


@click.command(epilog="Exit status: 0 done; 2 an error, nothing was written.")
@click.argument("plan_file", metavar="PLAN", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", metavar="DIR", required=True, type=click.Path(path_type=Path),
    help="Folder for the files, e.g. /etc/slurm. Made if it is not there.",
)  # fmt: skip
@click.option(
    "--templates", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder with templates of the site, used in place of ours where it has one.",
)  # fmt: skip
@click.option(
    "--slurm", metavar="RELEASE",
    help="Release of Slurm that will read the files (else the plan's, else the one here).",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace files that were not written by this command.")
@click.option("--json", "as_json", is_flag=True, help="Print what was generated as JSON.")
def command(
    *,
    plan_file: Path,
    output: Path,
    templates: Path | None,
    slurm: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write gres.conf, slurm-vgpu.conf, vgpu.conf and plugstack.conf.d/vgpu.conf from a plan.

    Hints for tmpfiles.d, cgroup.conf and job_submit.lua are in vgpu-hints; nothing reads them.

    The same plan gives the same bytes. An error in the plan leaves all files as they were.

    \b
    Examples:
      vgpu config generate plan.yaml -o /etc/slurm
      vgpu config generate plan.yaml -o /tmp/try --json
    """
    try:
        with working(f"reading {plan_file}"):
            plan = planfile.read(plan_file)
        wanted = release.parse(slurm) if slurm else plan.cluster.slurm or release.installed()
        with working("generating"):
            built = layout.build(plan)
            changed = write.write(output, render.render(built, wanted, templates), force)
    except (PlanError, ReleaseNeeded, render.TemplateError, write.WriteError) as error:
        fail(str(error))
    except ValueError as error:
        fail(f"--slurm: {error}")
    if as_json:
        click.echo(json.dumps(_summary(built, output, changed), indent=2))
        return
    for name in render.FILES:
        click.echo(f"{output / name}: {'written' if name in changed else 'unchanged'}")


def _summary(built: Layout, output: Path, changed: list[str]) -> dict[str, object]:
    return {
        "directory": str(output),
        "files": list(render.FILES),
        "changed": changed,
        "groups": [
            {
                "nodes": group.hosts(),
                "gres": render.gres_string(group),
                "features": list(group.layout.features),
                "slurm": dict(group.layout.slurm),
            }
            for group in built.groups
        ],
    }
