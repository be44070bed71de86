"""What NVLink means for a node: features that jobs may ask for, and Links= of whole GPUs."""

from collections.abc import Iterable, Sequence

from gres.plan import Gpus, Nvlink

RUNGS = (2, 4, 8, 16)
MOST_FIRST_UNTIL = "23.11"
"""The last release that prefers GPUs with more links; later ones sort Links the other way round."""


def features(gpus: Iterable[Gpus], nvlink: Nvlink) -> tuple[str, ...]:
    """Features of a node by the links among its GPUs that carry vGPUs.

    ``vgpu-nvlinkN`` for every N of 2, 4, 8, 16 up to the largest fully linked set,
    ``vgpu-nvswitch`` where a switch links them, ``vgpu-pcie`` where nothing does.
    """
    minors = [minor for gpu in gpus if gpu.vgpus for minor in gpu.minors]
    if not minors:
        return ()
    if nvlink.switch or not nvlink.pairs:
        largest = len(minors) if nvlink.switch else 1
    else:
        largest = largest_linked_set(minors, nvlink)
    if largest < 2:
        return ("vgpu-pcie",)
    names = [f"vgpu-nvlink{rung}" for rung in RUNGS if rung <= largest]
    return (*names, "vgpu-nvswitch") if nvlink.switch else tuple(names)


def largest_linked_set(minors: list[int], nvlink: Nvlink) -> int:
    """Size of the largest set in which every GPU has a link to every other."""
    import networkx  # noqa: PLC0415 (takes longer to load than all the rest)

    graph = networkx.Graph()
    graph.add_nodes_from(minors)
    graph.add_edges_from((a, b) for a, b, _ in nvlink.pairs if a in graph and b in graph)
    return max(len(clique) for clique in networkx.find_cliques(graph))


def matter(devices: Sequence[int | None], nvlink: Nvlink) -> bool:
    """Is it of importance which of these GPUs a job gets together?"""
    return len(set(counts(devices, nvlink).values())) > 1


def values(devices: Sequence[int | None], nvlink: Nvlink, release: str) -> list[str]:
    """Links= for each line of gres/gpu, in the orientation that this release of Slurm honours.

    ``devices`` has the GPU of each line, None for a MIG instance, which has no links. Up to 23.11
    Slurm takes GPUs with higher numbers first, so these are numbers of links. From 24.05 on it
    takes the lower ones first, so these are distances: 1 for the most links, and where there are
    none three times the worst distance over links.
    """
    linked = counts(devices, nvlink)
    if _sorts_most_first(release):
        value = {count: count for count in linked.values()}
    else:
        ranks = sorted({count for count in linked.values() if count}, reverse=True)
        value = {count: rank for rank, count in enumerate(ranks, 1)} | {0: 3 * len(ranks)}
    size = range(len(devices))
    return [
        ",".join(str(-1 if a == b else value[linked[min(a, b), max(a, b)]]) for b in size)
        for a in size
    ]


def _sorts_most_first(release: str) -> bool:
    return [int(part) for part in release.split(".")] <= [
        int(part) for part in MOST_FIRST_UNTIL.split(".")
    ]


def counts(devices: Sequence[int | None], nvlink: Nvlink) -> dict[tuple[int, int], int]:
    """Links of each pair of lines; behind a switch all pairs of whole GPUs are equal."""
    linked = {(a, b): count for a, b, count in nvlink.pairs}

    def count(a: int | None, b: int | None) -> int:
        if a is None or b is None or a == b:
            return 0
        return int(nvlink.switch) or linked.get((min(a, b), max(a, b)), 0)

    places = range(len(devices))
    return {(a, b): count(devices[a], devices[b]) for a in places for b in places if a < b}
