"""What must be installed on the node that this runs on."""

import re
from collections.abc import Iterator
from pathlib import Path

from gres import elf, release, slurmconf
from gres.check.finding import Finding
from gres.check.state import State
from pysched import paths

_PLUGIN = paths.PKGLIBDIR / "gres_vgpu.so"
_SPANK = paths.PKGLIBDIR / "spank_vgpu.so"
_LINE = re.compile(r"(required|optional)\s+(\S+)(.*)", re.IGNORECASE)
_INCLUDE = re.compile(r"include\s+(\S+)", re.IGNORECASE)


def check(state: State) -> Iterator[Finding]:
    yield from _plugin(state)
    if state.node is not None:
        yield from _files(state, state.node)
        yield from _plugstack(state, state.node)


def _plugin(state: State) -> Iterator[Finding]:
    """slurmctld and slurmd load gres/vgpu only if it was built for exactly their version: the one
    installed on this host, which is loaded at the next restart, whatever still runs elsewhere."""
    version = release.installed_version() or state.version
    nodes = (state.node,) if state.node else ()
    if not _PLUGIN.exists():
        yield Finding(
            "plugin-missing",
            str(_PLUGIN),
            "the plugin gres/vgpu is not installed here",
            "slurmd goes on without it: Couldn't find the specified plugin name for gres/vgpu "
            "looking at all files; steps with a vGPU fail: Slurm did not load its plugin gres/vgpu",
            "install slurm-vgpu for this release of Slurm, then restart slurmd",
            nodes,
        )
        return
    built = elf.plugin_version(_PLUGIN)
    if version and built != version:
        yield Finding(
            "plugin-release",
            str(_PLUGIN),
            f"built for Slurm {built or '(not a plugin)'} where {version} is installed",
            "slurmd goes on without it: Couldn't load specified plugin name for gres/vgpu: "
            "Incompatible plugin version; steps with a vGPU fail: Slurm did not load its plugin "
            "gres/vgpu",
            f"install slurm-vgpu built for Slurm {version}, then restart slurmd",
            nodes,
        )


def _files(state: State, node: str) -> Iterator[Finding]:
    """Every File= of gres.conf must be there."""
    for entry in slurmconf.gres_entries(state.gres or [], node):
        lacking = [name for name in entry.file.split(",") if name and not Path(name).exists()]
        if lacking:
            yield Finding(
                "gres-file",
                entry.where,
                f"File={lacking[0]} is not there",
                f"slurmd does not start: fatal: can't stat gres.conf file {lacking[0]}: "
                "No such file or directory",
                "install slurm-vgpu on the node (placeholders), or the driver (devices)",
                (node,),
            )


def _plugstack(state: State, node: str) -> Iterator[Finding]:
    """plugstack.conf must load our SPANK plugin, and with the folder of the plan."""
    path = _plugstack_path(state)
    found = [args for name, args in _stack(path, 0) if Path(name).name == _SPANK.name]
    wanted = state.layout.plan.cluster.runtime_dir
    if not found:
        yield Finding(
            "plugstack",
            str(path),
            "no line loads spank_vgpu.so",
            "jobs see every GPU in place of their vGPUs, and no quota is enforced",
            "add: include plugstack.conf.d/*.conf",
            (node,),
        )
    elif not _SPANK.exists():
        yield Finding(
            "plugstack",
            str(_SPANK),
            "the SPANK plugin is not installed here",
            "no job starts on the node: spank: … No such file or directory",
            "install slurm-vgpu on the node",
            (node,),
        )
    elif (folder := _argument(found[-1], "runtime_dir") or str(paths.RUNTIME_DIR)) != wanted:
        yield Finding(
            "plugstack",
            str(path),
            f"runtime_dir={folder} where the plan has {wanted}",
            "steps with a vGPU fail: vgpud does not answer",
            "run vgpu config generate, and start vgpud with the same folder",
            (node,),
        )


def _argument(arguments: str, name: str) -> str:
    found = re.search(rf"(?:^|\s){name}=(\S+)", arguments)
    return found[1] if found else ""


def _plugstack_path(state: State) -> Path:
    configured = state.controller.config.get("plugstackconfig", "") if state.controller else ""
    if configured.startswith("/"):
        return Path(configured)
    return state.directory / "plugstack.conf"


def _stack(path: Path, depth: int) -> Iterator[tuple[str, str]]:
    """(plugin, arguments) of plugstack.conf and what it includes."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        statement = line.partition("#")[0].strip()
        if match := _LINE.fullmatch(statement):
            yield match[2], match[3].strip()
        elif (match := _INCLUDE.fullmatch(statement)) and depth < 8:
            pattern = path.parent / match[1]
            for included in sorted(pattern.parent.glob(pattern.name)):
                yield from _stack(included, depth + 1)
