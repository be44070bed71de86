"""The nodes as slurmctld has them now."""

from collections.abc import Iterator

from gres.check.finding import RESTART, Finding
from gres.check.slurm_conf import differences
from gres.check.state import State


def check(state: State) -> Iterator[Finding]:
    if state.controller is None:
        if "slurmctld" in state.missing:
            yield Finding(
                "slurmctld",
                "slurmctld",
                state.missing["slurmctld"],
                "what Slurm really has cannot be compared with the plan",
                "start slurmctld, or give --offline to compare files and hardware only",
            )
        return
    for group in state.layout.groups:
        wanted, features = group.layout.gres(), frozenset(group.layout.features)
        for name in group.names:
            node = state.controller.nodes.get(name)
            if node is None:
                yield _unknown(name)
                continue
            if node.reason.startswith("gres/"):
                yield Finding(
                    "node-state",
                    "slurmctld",
                    f"{node.state}: {node.reason}",
                    "no job starts on the node",
                    "restart slurmd there, then scontrol update NodeName=… State=RESUME",
                    (name,),
                )
            elif difference := differences(wanted, dict(node.gres)):
                yield _stale(name, f"Slurm has other counts: {difference}", RESTART)
            elif lacking := sorted(features - node.features):
                what = f"Slurm does not have the features {', '.join(lacking)}"
                yield _stale(name, what, "scontrol reconfigure")
    yield from _unplanned(state)


def _unknown(name: str) -> Finding:
    return Finding(
        "node-name",
        "slurmctld",
        "slurmctld does not know this node of the plan",
        "no job starts on the node",
        "restart slurmctld with a slurm.conf that has the node",
        (name,),
    )


def _stale(name: str, what: str, remedy: str) -> Finding:
    why = "slurmctld runs with an older configuration than that of the plan"
    return Finding("node-gres", "slurmctld", what, why, remedy, (name,))


def _unplanned(state: State) -> Iterator[Finding]:
    assert state.controller
    planned = set(state.group_of())
    for name, node in state.controller.nodes.items():
        if name not in planned and any(gres.startswith("vgpu") for gres in node.gres):
            yield Finding(
                "unplanned",
                "slurmctld",
                "has vGPUs in Slurm, but is not in the plan",
                "vgpu.conf says nothing of these slots: steps that get one fail",
                "add the node to the plan, or take vgpu out of its NodeName line",
                (name,),
            )
