"""What a check finds: what is wrong, where, why it matters, what to do."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pysched import hosts

RESTART = "stop slurmd on the nodes, restart slurmctld, start slurmd"
"""In this order: a slurmctld that hears of a node from a slurmd that still has the old gres.conf
keeps types, cores and links from it as long as the number of lines stays the same."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference. Texts are sentences without the full stop."""

    code: str
    where: str  # file:line, or what else it was seen on
    what: str
    why: str  # what it leads to, with the error that Slurm or the suite then shows
    remedy: str
    nodes: tuple[str, ...] = ()  # empty: the whole cluster


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Findings in order, each once.

    Of several about the same place on the same node the first one is kept, since the others follow
    from it; what is the same on several nodes becomes one.
    """
    seen: set[tuple[str, tuple[str, ...]]] = set()
    together: dict[Finding, list[str]] = {}
    for finding in findings:
        place = (finding.where, finding.nodes)
        if place in seen:
            continue
        seen.add(place)
        together.setdefault(replace(finding, nodes=()), []).extend(finding.nodes)
    return [
        replace(finding, nodes=tuple(sorted(set(nodes), key=hosts.natural_key)))
        for finding, nodes in together.items()
    ]
