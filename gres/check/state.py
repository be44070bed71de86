"""The four sides of a check: plan, installed files, slurmctld, hardware."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gres import release as releases
from gres import render, slurmconf
from gres.check import controller as slurmctld
from gres.check.controller import Controller, ControllerError
from gres.layout import Group, Layout
from gres.slurmconf import Line, ReadError
from gres.sources import live
from gres.sources.machine import Machine, SourceError
from pysched import vgpuconf
from pysched.vgpuconf import VgpuConf, VgpuConfError


@dataclass(frozen=True)
class Alike:
    """Nodes that are to be alike and about which the same lines of the same files speak."""

    group: Group
    names: tuple[str, ...]
    line: Line | None  # the NodeName line of slurm.conf


@dataclass
class State:
    """All that is compared. What could not be had is None, and the reason is in ``missing``."""

    layout: Layout
    directory: Path
    version: str | None  # of Slurm, e.g. 22.05.8
    expected_gres: list[Line]
    expected_conf: VgpuConf
    node: str | None = None  # this host, where the plan has it
    slurm: list[Line] | None = None
    gres: list[Line] | None = None
    conf: VgpuConf | None = None
    controller: Controller | None = None
    machine: Machine | None = None
    missing: dict[str, str] = field(default_factory=dict)

    @cached_property
    def alike(self) -> list[Alike]:
        """All nodes of the plan by kind: of thousands one each has to be looked at."""
        node_lines = _by_node(self.slurm or [])
        kinds: dict[tuple[object, ...], list[str]] = {}
        for number, group in enumerate(self.layout.groups):
            for name in group.names:
                line = node_lines.get(name)
                known = self.controller.nodes.get(name) if self.controller else None
                key = (
                    number,
                    slurmconf.lines_of(self.gres or [], name),
                    self.conf.lines_of(name) if self.conf else (),
                    line.where if line else "",
                    (known.sockets, known.cores) if known else (),
                )
                kinds.setdefault(key, []).append(name)
        return [
            Alike(self.layout.groups[int(str(key[0]))], tuple(names), node_lines.get(names[0]))
            for key, names in kinds.items()
        ]

    def group_of(self) -> dict[str, int]:
        """Node -> number of its group in the layout."""
        return {name: n for n, group in enumerate(self.layout.groups) for name in group.names}


def _by_node(lines: Sequence[Line]) -> dict[str, Line]:
    """Node -> its NodeName line; of several the last one counts."""
    return {
        name: line
        for line in lines
        if "nodename" in line.values
        for name in slurmconf.host_set(line.values["nodename"])
    }


def gather(layout: Layout, directory: Path, this_node: str, *, ask_slurm: bool = True) -> State:
    """Read and ask everything once."""
    missing: dict[str, str] = {}
    controller = _ask(missing) if ask_slurm else None
    version = controller.version if controller else releases.installed_version()
    release = releases.parse(version) if version else layout.plan.cluster.slurm or None
    files = render.render(layout, release)
    names = {name for group in layout.groups for name in group.names}
    state = State(
        layout=layout,
        directory=directory,
        version=version,
        expected_gres=slurmconf.parse(files["gres.conf"], Path("plan")),
        expected_conf=vgpuconf.parse(files["vgpu.conf"], "plan"),
        node=this_node if this_node in names else None,
        slurm=_lines(directory / "slurm.conf", missing),
        gres=_lines(directory / "gres.conf", missing),
        conf=_conf(directory / "vgpu.conf", missing),
        controller=controller,
        missing=missing,
    )
    if state.node:
        state.machine = _machine(state.node, missing)
    return state


def _ask(missing: dict[str, str]) -> Controller | None:
    try:
        return slurmctld.ask()
    except ControllerError as error:
        missing["slurmctld"] = str(error)
        return None


def _lines(path: Path, missing: dict[str, str]) -> list[Line] | None:
    try:
        return slurmconf.read(path)
    except ReadError as error:
        missing[path.name] = str(error)
        return None


def _conf(path: Path, missing: dict[str, str]) -> VgpuConf | None:
    try:
        return vgpuconf.read(path)
    except VgpuConfError as error:
        missing[path.name] = str(error)
        return None


def _machine(node: str, missing: dict[str, str]) -> Machine | None:
    try:
        return live.read(node)
    except SourceError as error:
        missing["nvml"] = str(error)
        return None
