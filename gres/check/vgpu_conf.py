"""vgpu.conf against the plan, and against what vgpud has read."""

import os
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gres.check.finding import Finding
from gres.check.state import State
from pysched import sizes
from pysched.vgpuconf import Node, Slot, VgpuConf, VgpuConfError

_AGAIN = "copy vgpu.conf to the node again, then restart vgpud there"
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def check(state: State) -> Iterator[Finding]:
    path = state.directory / "vgpu.conf"
    if state.conf is None:
        yield _refused(path, state.missing["vgpu.conf"])
        return
    different = changed_settings(state.expected_conf, state.conf)
    if different:
        yield Finding(
            "vgpu-conf",
            str(path),
            f"the lines {', '.join(different)} are not as the plan has them",
            "vgpud and sbatch follow other rules than the plan's",
            f"run vgpu config generate, {_AGAIN}",
        )
    for alike in state.alike:
        for finding in _node(state, state.conf, alike.names[0]):
            for name in alike.names:
                yield replace(finding, nodes=(name,))
    yield from _vgpud(state, path)


def _node(state: State, conf: VgpuConf, name: str) -> Iterator[Finding]:
    path = state.directory / "vgpu.conf"
    try:
        found = conf.node(name)
    except VgpuConfError as error:
        yield _refused(path, str(error).replace(f"node {name}: ", ""))
        return
    difference = _difference(state.expected_conf.node(name), found)
    if difference:
        yield Finding(
            "vgpu-conf",
            str(path),
            difference,
            "vgpud and Slurm mean different vGPUs by the same slot: jobs get another quota than "
            "they asked for",
            _AGAIN,
        )


def changed_settings(wanted: VgpuConf, found: VgpuConf) -> list[str]:
    """``Backstop=``, ``Slices=`` … that differ."""
    there = found.settings()
    return [f"{key}=" for key, value in wanted.settings().items() if there[key] != value]


def _refused(path: Path, error: str) -> Finding:
    where, _, what = error.partition(": ")
    return Finding(
        "vgpu-conf",
        where,
        what,
        "vgpud does not start, and steps with a vGPU fail: vgpud does not answer",
        f"run vgpu config generate, {_AGAIN}",
    )


def _difference(wanted: Node, found: Node) -> str:
    """The first thing that is not as the plan has it; empty where all is."""
    if len(found.slots) != len(wanted.slots):
        return f"{len(found.slots)} slots where the plan has {len(wanted.slots)}"
    for here, there in zip(found.slots, wanted.slots, strict=True):
        if here.type != there.type:
            return f"slot {here.index} is {_of_type(here)} where the plan has {_of_type(there)}"
        if here.gpu.minor != there.gpu.minor:
            return (
                f"slot {here.index} is at home on GPU {here.gpu.minor} where the plan has "
                f"GPU {there.gpu.minor}"
            )
    if set(found.gpus) != set(wanted.gpus):
        return "GPUs are described otherwise than in the plan"
    return ""


def _of_type(slot: Slot) -> str:
    kind = slot.type
    return (
        f"{kind.name} with {sizes.approximate_size(kind.memory)}, "
        f"{kind.sms} to {kind.max_sms} SMs, slices of {kind.slice_ms} ms, {kind.policy}"
    )


def _vgpud(state: State, path: Path) -> Iterator[Finding]:
    """A vgpud that runs on this node since before the file was written."""
    if state.node is None:
        return
    folder = state.layout.plan.cluster.runtime_dir.replace("%n", state.node)
    started = _started(Path(folder) / "vgpud.sock")
    if started is not None and started < path.stat().st_mtime:
        yield Finding(
            "vgpud",
            folder,
            "vgpud has been running since before vgpu.conf was written",
            "it still uses what the file said before",
            "restart vgpud (running jobs are not disturbed)",
            (state.node,),
        )


def _started(path: Path) -> float | None:
    """When the process that listens on the socket began, as a time of day; None: nobody does."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(str(path))
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid = struct.unpack("iII", credentials)[0]
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, IndexError, ValueError):
        return None
    return time.time() - uptime + ticks / _CLOCK_TICKS
