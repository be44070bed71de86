"""vgpu ps."""

import dataclasses
import json
import pwd
import time
from collections.abc import Callable
from pathlib import Path

import click

from pysched import paths, sizes
from pysched.cli.fail import fail
from pysched.cli.table import table
from pysched.vgpud_client import Binding, Vgpud, VgpudError

_MEMORY = ["JOB", "USER", "SLOT", "GPU", "TYPE", "QUOTA", "USED", "PEAK", "PROCS"]
_TIME = ["JOB", "SLOT", "GPU", "SMS", "SLICE", "ENTITLED", "USED", "WAITED", "OVERRUN", "SWITCHES"]
_WORDS = ["USER", "TYPE"]


@click.command(epilog="Exit status: 0 done; 2 vgpud does not answer.")
@click.option(
    "--runtime-dir", metavar="DIR", default=paths.RUNTIME_DIR, type=click.Path(path_type=Path),
    show_default=True, help="vgpud's folder, where plugstack.conf states another one.",
)  # fmt: skip
@click.option("--time", "of_time", is_flag=True, help="Show GPU time instead of memory.")
@click.option(
    "--watch", type=click.FloatRange(min=0.1), is_flag=False, flag_value=2.0, metavar="[SECONDS]",
    help="Show GPU time and memory again and again, every 2 seconds or as said; Ctrl-C ends it.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print all that vgpud knows as JSON.")
def command(*, runtime_dir: Path, of_time: bool, watch: float | None, as_json: bool) -> None:
    """Show the vGPUs that jobs hold on this node, their memory quota and what is used of it.

    USED is what the vGPU's processes have allocated now, PEAK the most they ever had.

    With --time: the SMs guaranteed and at most, the slice, and in seconds since the vGPU was
    bound: what it was ENTITLED to while it wanted to run, USED, WAITED for, and OVERRUN at the ends
    of its slices; and how often it got the GPU. With --watch USED is per cent of the GPU's time.

    \b
    Examples:
      vgpu ps
      vgpu ps --time
      vgpu ps --watch 1
      vgpu ps --json | jq '.[] | {job, charged}'
    """

    def bindings() -> list[Binding]:
        try:
            return list(Vgpud(runtime_dir).bindings())
        except VgpudError as error:
            fail(str(error))

    if watch is not None:
        _watch(bindings, watch)
    elif as_json:
        found = [dataclasses.asdict(binding) for binding in bindings()]
        click.echo(json.dumps(found, indent=2))
    else:
        click.echo(as_time_table(bindings()) if of_time else as_table(bindings()))


def _watch(bindings: Callable[[], list[Binding]], every: float) -> None:
    """Until the user has seen enough."""
    before: list[Binding] = []
    since = time.monotonic()
    try:
        while True:
            now, at = bindings(), time.monotonic()
            click.clear()
            click.echo(as_watch_table(now, before, at - since))
            before, since = now, at
            time.sleep(every)
    except KeyboardInterrupt:
        pass


def _ordered(bindings: list[Binding]) -> list[Binding]:
    return sorted(bindings, key=lambda binding: (binding.job, binding.vgpu.slot))


def _table(headings: list[str], rows: list[list[str]]) -> str:
    return table(headings, rows, right=[word for word in headings if word not in _WORDS])


def as_table(bindings: list[Binding]) -> str:
    """Memory: one row for each vGPU."""
    return _table(_MEMORY, [_row(binding) for binding in _ordered(bindings)])


def as_time_table(bindings: list[Binding]) -> str:
    """GPU time since the vGPUs were bound."""
    rows = []
    for binding in _ordered(bindings):
        times = [binding.entitled_ns, binding.used_ns, binding.waited_ns, binding.overrun_ns]
        rows.append(
            [
                str(binding.job),
                _slot(binding),
                str(binding.vgpu.gpu),
                f"{binding.vgpu.sms}/{binding.vgpu.max_sms}",
                f"{binding.slice_us / 1000:g}ms",
                *(f"{ns / 1e9:.1f}" for ns in times),
                str(binding.switches),
            ]
        )
    return _table(_TIME, rows)


def as_watch_table(now: list[Binding], before: list[Binding], seconds: float) -> str:
    """Memory, and per cent of the GPU's time in the last ``seconds``; at most 80 columns wide."""
    headings = ["JOB", "USER", "SLOT", "GPU", "QUOTA", "USED", "PROCS", "SMS", "TIME%", "WAIT%"]
    earlier = {binding.vgpu.id: binding for binding in before}
    rows = []
    for binding in _ordered(now):
        old = earlier.get(binding.vgpu.id)
        rows.append(
            [
                str(binding.job),
                _user(binding.uid)[:10],
                _slot(binding),
                str(binding.vgpu.gpu),
                sizes.approximate_size(binding.vgpu.quota),
                sizes.approximate_size(binding.charged),
                str(binding.processes),
                f"{binding.vgpu.sms}/{binding.vgpu.max_sms}",
                _percent(binding.used_ns, old.used_ns if old else None, seconds),
                _percent(binding.waited_ns, old.waited_ns if old else None, seconds),
            ]
        )
    return _table(headings, rows)


def _percent(now: int, before: int | None, seconds: float) -> str:
    if before is None or seconds <= 0:
        return "-"
    return f"{max(0, now - before) / seconds / 1e7:.1f}"


def _slot(binding: Binding) -> str:
    more = f"+{binding.vgpu.slots - 1}" if binding.vgpu.slots > 1 else ""
    return f"{binding.vgpu.slot}{more}"


def _row(binding: Binding) -> list[str]:
    vgpu = binding.vgpu
    memory = [vgpu.quota, binding.charged, binding.peak]
    return [
        str(binding.job),
        _user(binding.uid),
        _slot(binding),
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
