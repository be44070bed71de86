"""What NVLink means for a node: features that jobs may ask for."""

from collections.abc import Iterable

import networkx

from gres.plan import Gpus, Nvlink

RUNGS = (2, 4, 8, 16)


def features(gpus: Iterable[Gpus], nvlink: Nvlink) -> tuple[str, ...]:
    """Features of a node by the links among its GPUs that carry vGPUs.

    ``vgpu-nvlinkN`` for every N of 2, 4, 8, 16 up to the largest fully linked set,
    ``vgpu-nvswitch`` where a switch links them, ``vgpu-pcie`` where nothing does.
    """
    minors = [minor for gpu in gpus if gpu.vgpus for minor in gpu.minors]
    if not minors:
        return ()
    largest = len(minors) if nvlink.switch else largest_linked_set(minors, nvlink)
    if largest < 2:
        return ("vgpu-pcie",)
    names = [f"vgpu-nvlink{rung}" for rung in RUNGS if rung <= largest]
    return (*names, "vgpu-nvswitch") if nvlink.switch else tuple(names)


def largest_linked_set(minors: list[int], nvlink: Nvlink) -> int:
    """Size of the largest set in which every GPU has a link to every other."""
    graph = networkx.Graph()
    graph.add_nodes_from(minors)
    graph.add_edges_from((a, b) for a, b, _ in nvlink.pairs if a in graph and b in graph)
    return max(len(clique) for clique in networkx.find_cliques(graph))
