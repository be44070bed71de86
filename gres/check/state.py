"""The four sides of a check: plan, installed files, slurmctld, hardware."""

from dataclasses import dataclass, field
from pathlib import Path

from gres import release as releases
from gres import render, slurmconf
from gres.check import controller as slurmctld
from gres.check.controller import Controller, ControllerError
from gres.layout import Layout
from gres.slurmconf import Line, ReadError
from gres.sources import live
from gres.sources.machine import Machine, SourceError
from pysched import vgpuconf
from pysched.vgpuconf import VgpuConf, VgpuConfError


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

    def group_of(self) -> dict[str, int]:
        """Node -> number of its group in the layout."""
        return {name: n for n, group in enumerate(self.layout.groups) for name in group.names}


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
