"""From the topology model to the links of a plan."""

from itertools import combinations

from gres.plan import Nvlink
from pysched.topology.model import Topology


def nvlink(topology: Topology) -> Nvlink:
    """The NVLinks between the GPUs, by minor number where it is known, else by place."""
    if topology.switch:
        return Nvlink(switch=True)
    minors = [place if gpu.minor is None else gpu.minor for place, gpu in enumerate(topology.gpus)]
    pairs = []
    for one, other in combinations(range(len(topology)), 2):
        count = topology.link(one, other).nvlinks
        if count:
            low, high = sorted((minors[one], minors[other]))
            pairs.append((low, high, count))
    return Nvlink(pairs=tuple(sorted(pairs)))
