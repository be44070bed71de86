"""slurm.conf and what slurmctld runs with, against the plan."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from gres import render, slurmconf
from gres.check.finding import RESTART, Finding
from gres.check.state import State
from gres.layout import Group
from gres.slurmconf import Line
from pysched import paths

_RESTART = "restart slurmctld and every slurmd"


def check(state: State) -> Iterator[Finding]:
    if state.slurm is None:
        yield Finding(
            "slurm-conf",
            str(state.directory / "slurm.conf"),
            state.missing["slurm.conf"].partition(": ")[2],
            "no Slurm command or daemon starts without it",
            "give the folder of slurm.conf with --dir",
        )
        return
    yield from _plugin_dir(state)
    for key, wanted, code, why in _lists(state):
        yield from _list(state, key, wanted, code, why)
    if state.layout.plan.cluster.submit_bridge and state.node is None:
        yield from _job_submit(state.directory / "job_submit.lua")
    yield from _nodes(state)


def _job_submit(path: Path) -> Iterator[Finding]:
    """The controller's Lua script, which JobSubmitPlugins=lua needs."""
    if not path.exists():
        yield Finding(
            "job-submit",
            str(path),
            "is not there, but JobSubmitPlugins has lua",
            "slurmctld does not start: fatal: failed to initialize job_submit plugin",
            "copy vgpu-hints/job_submit.lua there, or take submit_bridge out of the plan",
        )
    elif "job_submit_vgpu.lua" not in path.read_text(encoding="utf-8", errors="replace"):
        yield Finding(
            "job-submit",
            str(path),
            "does not take in job_submit_vgpu.lua",
            "jobs are accepted unchecked: no early refusal, no preferred nodes",
            "add the lines that vgpu-hints/job_submit.lua marks",
        )


# --- PluginDir ------------------------------------------------------------------------------------


def _plugin_dir(state: State) -> Iterator[Finding]:
    line = slurmconf.last(state.slurm or [], "PluginDir")
    folders = line.values["plugindir"].split(":") if line else []
    where = line.where if line else str(state.directory / "slurm.conf")
    for folder in folders:
        if not Path(folder).is_dir():
            yield Finding(
                "plugin-dir",
                where,
                f"PluginDir names {folder}, which is not there",
                f"every Slurm command and daemon here ends with: PluginDir: {folder}: "
                "No such file or directory",
                "install slurm-vgpu here, or take the folder out of PluginDir",
            )
            return
    wanted = str(paths.PKGLIBDIR)
    if wanted not in folders:
        yield Finding(
            "plugin-dir",
            where,
            f"PluginDir does not name {wanted}",
            "slurmd cannot load gres/vgpu: Couldn't find the specified plugin name for gres/vgpu; "
            "steps with a vGPU fail",
            f"include slurm-vgpu.conf in slurm.conf, then {_RESTART}",
        )
    elif state.controller and wanted not in state.controller.config.get("plugindir", "").split(":"):
        yield _not_running("plugin-dir", where, "PluginDir", state)


# --- parameters that are lists --------------------------------------------------------------------


def _lists(state: State) -> list[tuple[str, list[str], str, str]]:
    """(key, entries it must have, code of the finding, what their lack leads to)."""
    context = render.context(state.layout, state.version)
    cluster = state.layout.plan.cluster
    lists: list[tuple[str, list[str], str, str]] = [
        (
            "GresTypes",
            context["gres_types"],
            "gres-types",
            "nodes lose their vGPUs (Gres=(null)) and slurmctld logs: gres_node_config_unpack: "
            "No plugin configured to process GRES data",
        )
    ]
    if cluster.submit_bridge:
        why = "jobs are accepted unchecked: no early refusal, no preferred nodes"
        lists.append(("JobSubmitPlugins", ["lua"], "job-submit", why))
    if cluster.accounting:
        why = "the accounting database and TRESBillingWeights know nothing of these GRES"
        lists.append(("AccountingStorageTRES", context["accounting_tres"], "accounting", why))
    return lists


def _list(state: State, key: str, wanted: Iterable[str], code: str, why: str) -> Iterator[Finding]:
    line = slurmconf.last(state.slurm or [], key)
    where = line.where if line else str(state.directory / "slurm.conf")
    lacking = _lacking(wanted, line.values[key.lower()] if line else "")
    if lacking:
        yield Finding(
            code,
            where,
            f"{key} lacks {', '.join(lacking)}",
            why,
            f"include slurm-vgpu.conf in slurm.conf and leave {key} to it, then {_RESTART}",
        )
    elif state.controller and _lacking(wanted, state.controller.config.get(key.lower(), "")):
        yield _not_running(code, where, key, state)


def _lacking(wanted: Iterable[str], value: str) -> list[str]:
    present = {name.strip().lower() for name in value.split(",")}
    return [name for name in wanted if name.lower() not in present]


def _not_running(code: str, where: str, key: str, state: State) -> Finding:
    assert state.controller
    return Finding(
        code,
        where,
        f"slurmctld still runs with {key}={state.controller.config.get(key.lower(), '')}",
        "what the file says is not in force",
        _RESTART,
    )


# --- NodeName lines -------------------------------------------------------------------------------


def _nodes(state: State) -> Iterator[Finding]:
    for alike in state.alike:
        if alike.line is None:
            found = [_unknown_node(state)]
        else:
            found = list(_line(alike.group, alike.line))
        for finding in found:
            for name in alike.names:
                yield replace(finding, nodes=(name,))


def _line(group: Group, line: Line) -> Iterator[Finding]:
    difference = differences(group.layout.gres(), slurmconf.parse_gres(line.values.get("gres", "")))
    if difference:
        yield _node_gres(line.where, difference)
    text = line.values.get("feature", line.values.get("features", ""))
    lacking = sorted(set(group.layout.features) - set(text.split(",")))
    if lacking:
        yield Finding(
            "features",
            f"{line.where} (Feature)",
            f"Feature lacks {', '.join(lacking)}",
            "jobs that ask for these features do not start there",
            "include slurm-vgpu.conf in slurm.conf, then scontrol reconfigure",
        )


def _unknown_node(state: State) -> Finding:
    return Finding(
        "node-name",
        str(state.directory / "slurm.conf"),
        "no NodeName line",
        "slurmctld does not know the node: slurmd there ends with: fatal: Unable to determine "
        "this slurmd's NodeName",
        "add a NodeName line (slurm: in the plan writes it), then restart slurmctld",
    )


def _node_gres(where: str, difference: str) -> Finding:
    return Finding(
        "node-gres",
        where,
        f"Gres of the NodeName line: {difference}",
        "Slurm gives out other counts than there are: slurmd ignores what is too much, and "
        'slurmctld drains a node that has too few: "count reported lower than configured"',
        f"include slurm-vgpu.conf in slurm.conf, {RESTART}",
    )


def differences(wanted: dict[str, int], found: dict[str, int]) -> str:
    """``vgpu:a100-4g is 14 where the plan has 16``; empty where there is none."""
    parts = [
        f"{name} is {found.get(name, 0)} where the plan has {wanted.get(name, 0)}"
        for name in [*wanted, *(name for name in found if name not in wanted)]
        if wanted.get(name, 0) != found.get(name, 0) and _ours(name, wanted)
    ]
    return ", ".join(parts)


def _ours(name: str, wanted: dict[str, int]) -> bool:
    """A GRES that the plan knows nothing of is the site's."""
    kind = name.partition(":")[0]
    return kind == "vgpu" or any(kind == known.partition(":")[0] for known in wanted)
