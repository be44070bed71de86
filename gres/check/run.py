"""All checks, the most specific first: what follows from an earlier finding is left out."""

from collections.abc import Iterator

from gres.check import gres_conf, hardware, node, nodes, slurm_conf, vgpu_conf
from gres.check.finding import Finding, merged
from gres.check.state import State


def run(state: State) -> list[Finding]:
    return merged(_findings(state))


def _findings(state: State) -> Iterator[Finding]:
    everything = frozenset(state.group_of())
    explained: set[str] = set()  # nodes that slurmctld sees wrongly because of their files
    for check in (slurm_conf.check, node.check, gres_conf.check):
        for finding in check(state):
            explained.update(finding.nodes or everything)
            yield finding
    yield from vgpu_conf.check(state)
    yield from hardware.check(state)
    for finding in nodes.check(state):
        if not explained.issuperset(finding.nodes or everything):
            yield finding
