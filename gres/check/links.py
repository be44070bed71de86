"""Which way slurmctld really sorts Links=: a test allocation on an idle node shows it."""

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from gres import lines, links
from gres.check.finding import RESTART, Finding
from gres.check.state import State
from gres.layout import Group

_GRANTED = re.compile(r"Granted job allocation ([0-9]+)")
_INDICES = re.compile(r"gpu(?::[^(]*)?\(IDX:([0-9,-]+)\)")
_WAIT = 30  # seconds for the allocation

Allocate = Callable[[str, str], list[int]]


class AllocationError(Exception):
    """One sentence: the test allocation was not possible."""


def check(
    state: State, say: Callable[[str], None], allocate: Allocate | None = None
) -> Iterator[Finding]:
    """Allocate two GPUs on one idle node of each group where it matters which two they are.

    ``say`` is told of groups that could not be tried.
    """
    for group in state.layout.groups:
        devices = lines.gpu_devices(group.layout)
        if not links.matter(devices, group.layout.nvlink):
            continue
        node = _idle(state, group.names)
        if node is None:
            say(f"{group.hosts()}: no node is idle: which GPUs Slurm gives out could not be tried")
            continue
        try:
            indices = (allocate or _allocate)(node, _kind(group))
        except AllocationError as error:
            say(f"{node}: {error}")
            continue
        finding = _judge(group, devices, indices)
        if finding:
            yield replace(finding, nodes=(node,))


def _idle(state: State, names: Iterable[str]) -> str | None:
    nodes = state.controller.nodes if state.controller else {}
    return next((name for name in names if name in nodes and nodes[name].state == "IDLE"), None)


def _kind(group: Group) -> str:
    return next(gpu.card.name for gpu in group.layout.gpus if gpu.whole or gpu.shards)


def _judge(group: Group, devices: Sequence[int | None], indices: Sequence[int]) -> Finding | None:
    """Two GPUs with fewer links than the first one of them has to another are a finding."""
    counts = links.counts(devices, group.layout.nvlink)
    got = tuple(sorted(indices))
    first = got[0]
    best = max((pair for pair in counts if first in pair), key=lambda pair: counts[pair])
    if counts[got[0], got[1]] >= counts[best]:
        return None
    return Finding(
        "links-order",
        "slurmctld",
        f"gives GPUs {_names(devices, got)} with {counts[got[0], got[1]]} links to a job of two "
        f"where GPUs {_names(devices, best)} have {counts[best]}",
        "jobs with several GPUs run over the slowest links there are",
        f"generate gres.conf for the release of Slurm that runs (--slurm), {RESTART}; Links= are "
        "numbers of links up to 23.11, distances from 24.05 on",
    )


def _names(devices: Sequence[int | None], pair: Sequence[int]) -> str:
    return " and ".join(str(devices[index]) for index in pair)


# --- the test allocation --------------------------------------------------------------------------


def _allocate(node: str, kind: str) -> list[int]:
    """Allocate two GPUs of a type on the node; return their indices in gres.conf's order."""
    arguments = ["--no-shell", "-J", "vgpu-links", "-t", "1", "-N", "1", "-w", node]
    granted = _run("salloc", *arguments, f"--immediate={_WAIT}", f"--gres=gpu:{kind}:2")
    match = _GRANTED.search(granted)
    if match is None:
        raise AllocationError("salloc granted nothing")
    try:
        shown = _INDICES.search(_run("scontrol", "show", "job", "-d", match[1]))
        if shown is None:
            raise AllocationError("scontrol show job -d names no GPUs")
        return _numbers(shown[1])
    finally:
        _run("scancel", match[1])


def _run(*command: str) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=2 * _WAIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AllocationError(f"{command[0]}: {error}") from None
    if done.returncode != 0:
        lines_ = done.stderr.strip().splitlines() or ["no reason given"]
        raise AllocationError(f"{command[0]}: {lines_[-1]}")
    return done.stdout + done.stderr


def _numbers(text: str) -> list[int]:
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers
