"""vgpu policy."""

import re
from pathlib import Path

import click

from pysched import paths
from pysched.cli.fail import fail
from pysched.vgpud_client import Vgpud, VgpudError


@click.group()
def command() -> None:
    """Change how a running job shares GPU time on this node."""


def _slice(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int:
    """Microseconds; 0 if not given."""
    if value is None:
        return 0
    match = re.fullmatch(r"([0-9]{1,4})ms", value)
    if not match or not 5 <= int(match[1]) <= 1000:
        fail(f"--slice={value}: 5ms to 1000ms is expected, as 10ms")
    return int(match[1]) * 1000


@command.command("set", epilog="Exit status: 0 done; 2 vgpud refuses or does not answer.")
@click.argument("job", type=click.IntRange(min=1))
@click.option("--slice", "slice_us", callback=_slice, metavar="TIME", help="Slices, as 10ms.")
@click.option("--workload", default="", metavar="NAME", help="Slices that suit a workload, as cnn.")
@click.option(
    "--max-sms", type=click.IntRange(min=1), default=None, metavar="N",
    help="At most the time of so many SMs; not below what the type guarantees.",
)  # fmt: skip
@click.option("--burst", default="", metavar="CLASS", help="Put the job into a burst class.")
@click.option(
    "--runtime-dir", metavar="DIR", default=paths.RUNTIME_DIR, type=click.Path(path_type=Path),
    show_default=True, help="vgpud's folder, where plugstack.conf states another one.",
)  # fmt: skip
def set_command(
    *, job: int, slice_us: int, workload: str, max_sms: int | None, burst: str, runtime_dir: Path
) -> None:
    """Set the policy of a job's vGPUs on this node; what is not named stays as it is.

    It holds from the next slice on, until the job ends. vgpu.conf says which workloads and burst
    classes there are.

    \b
    Examples:
      vgpu policy set 4711 --slice 20ms
      vgpu policy set 4711 --workload cnn --max-sms 54
    """
    if not (slice_us or workload or max_sms or burst):
        fail("nothing to set: --slice, --workload, --max-sms or --burst is expected")
    try:
        Vgpud(runtime_dir).set_policy(
            job, slice_us=slice_us, workload=workload, max_sms=max_sms or 0, burst_class=burst
        )
    except VgpudError as error:
        fail(str(error))
