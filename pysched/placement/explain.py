"""Why a placement is what it is, in one sentence."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pysched.placement.request import Affinity, Placement, Policy, Request
from pysched.topology.model import Topology


def explained(
    found: Placement, topology: Topology, candidates: Sequence[int], request: Request, uniform: bool
) -> Placement:
    """The same placement with its reason."""
    return replace(found, why=_reason(found, topology, candidates, request, uniform))


def _reason(
    found: Placement, topology: Topology, candidates: Sequence[int], request: Request, uniform: bool
) -> str:
    named = [_name(topology, gpu) for gpu in found.gpus]
    if request.ranks == 1:
        return f"GPU {named[0]}: {_secondary(found, request)}"
    gpus = f"GPUs {','.join(named)}"
    if uniform:
        link = topology.link(*found.gpus[:2])
        return (
            f"{gpus}: no gain possible from links, every pair is {link} "
            f"({topology.bandwidth(*found.gpus[:2]):g} GB/s), {_secondary(found, request)}"
        )
    if found.bottleneck_gbps is None:
        return f"{gpus}: no pair of ranks asks for a link, {_secondary(found, request)}"
    proof = "no mapping is better" if found.optimal else "the best found"
    return (
        f"{gpus} for {request.pattern}: {_links(found, topology, request)}, limited by a pair "
        f"with {found.bottleneck_gbps:g} GB/s, {proof}"
    )


def _name(topology: Topology, gpu: int) -> str:
    """A GPU by the number of its device file, where that is known."""
    minor = topology.gpus[gpu].minor
    return str(gpu if minor is None else minor)


def _links(found: Placement, topology: Topology, request: Request) -> str:
    """How many pairs that talk have which link: 3 over NV2 and 1 over SYS."""
    kinds = Counter(
        str(topology.link(found.gpus[one], found.gpus[other]))
        for one in range(request.ranks)
        for other in range(one)
        if request.demand[one][other]
    )
    return " and ".join(f"{count} over {name}" for name, count in kinds.most_common())


def _secondary(found: Placement, request: Request) -> str:
    """What decided where links did not."""
    near = f"{len(found.gpus) - found.away} of {len(found.gpus)} next to the CPUs, "
    emptiest = "fullest" if request.policy is Policy.PACK else "emptiest"
    return f"{near if request.cpus else ''}the {emptiest} that take least from others"


def impossible(topology: Topology, candidates: Sequence[int], request: Request) -> str:
    """Why enough GPUs with free slots still do not make a placement."""
    count, have = request.ranks, len(candidates)
    if request.affinity is Affinity.REQUIRE_NVLINK:
        return f"no {count} of the {have} GPUs with a free slot are all linked by NVLink"
    if request.affinity is Affinity.SAME_NUMA:
        if not any(topology.gpus[gpu].domain for gpu in candidates):
            return "this node does not say which GPUs share a NUMA node"
        return f"no {count} of the {have} GPUs with a free slot are on one NUMA node"
    return f"the free slots of the {len(set(request.types))} types asked for are on too few GPUs"
