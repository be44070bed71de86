"""The decision on one request: refuse it, or accept it with fields to set. Pure."""

from collections.abc import Iterable

from pysched import segment, sizes
from pysched.hosts import collect_lines, expand
from pysched.placement import Affinity, patterns
from pysched.placement.patterns import PatternError
from pysched.select import features, gres
from pysched.select.cluster import ANY, LINKED, RUNGS, Need, NodeView, Shape, Snapshot, Wanted
from pysched.select.protocol import Accept, Answer, JobRequest, Refuse

OTHER_FIELDS = ("tres_per_job", "tres_per_socket", "tres_per_task")
LONGEST_LIST = 4000
"""Characters of a host list that a job carries with it."""
MOST_PER_NODE = patterns.MOST_RANKS
NEEDS = "needs"
"""The key of our segment that says which features a job cannot do without."""


class Refusal(Exception):
    """The sentence for the user."""


Groups = list[tuple[Shape, list[NodeView]]]


def decide(request: JobRequest, snapshot: Snapshot) -> Answer:
    """Answer a request; equal ones are answered from memory while the snapshot holds."""
    known = snapshot.answers.get(request)
    if known is None:
        known = snapshot.answers[request] = _decide(request, snapshot)
    assert isinstance(known, (Accept, Refuse))
    return known


def _decide(request: JobRequest, snapshot: Snapshot) -> Answer:
    try:
        if request.op == "modify":
            return Accept(_modified(request, snapshot))
        return Accept(_submitted(request, snapshot))
    except Refusal as refusal:
        return Refuse(str(refusal))


# --- a new job --------------------------------------------------------------------------------


def _submitted(request: JobRequest, snapshot: Snapshot) -> dict[str, str]:
    per_node = gres.items(request.tres_per_node)
    items = per_node or _of_one_node(request)
    if not items or not snapshot.groups:
        return {}
    changes: dict[str, str] = {}
    note: dict[str, str] = {}
    types = _types(items)
    memory = _memory(request.mem)
    if memory:
        name = _fitting_type(request, types, memory, snapshot)
        if name and ANY in types:
            changes |= _typed(request, name)
            note["type"] = name
            types = tuple(kind or name for kind in types)
    wanted = _wanted(request, types, whole=bool(per_node))
    candidates = _candidates(request, wanted, snapshot)
    if per_node:
        changes |= _excluded(request, candidates, snapshot)
    needs = _needed_feature(wanted, candidates)
    final = features.both(request.features, needs) if needs else request.features
    if needs:
        changes["features"] = final
        note[NEEDS] = needs
    liked = _preferred(request, wanted, candidates, final, snapshot) if per_node else None
    if liked:
        changes["prefer"] = features.both(final, liked)
        note["prefers"] = liked
    if note:
        comment = request.admin_comment
        for key, value in note.items():
            comment = segment.set_field(comment, key, value)
        changes["admin_comment"] = comment
    return changes


def _of_one_node(request: JobRequest) -> list[gres.Item]:
    """What one node has at least, of requests that are not per node."""
    for text in (request.tres_per_task, request.tres_per_socket):
        if items := gres.items(text):
            return items
    return [gres.Item(item.type, 1) for item in gres.items(request.tres_per_job)[:1]]


def _types(items: list[gres.Item]) -> tuple[str, ...]:
    """The type of each vGPU of a node."""
    total = sum(item.count for item in items)
    if not 0 < total <= MOST_PER_NODE:
        raise Refusal(f"vgpu:{total}: 1 to {MOST_PER_NODE} vGPUs a node are possible")
    return tuple(item.type for item in items for _ in range(item.count))


def _memory(text: str) -> int:
    try:
        return sizes.parse_size(text) if text else 0
    except ValueError as error:
        raise Refusal(f"--vgpu-mem: {error}") from None


def _fitting_type(
    request: JobRequest, types: tuple[str, ...], memory: int, snapshot: Snapshot
) -> str | None:
    """The smallest type with so much memory that nodes can give so often. None: not known."""
    known = snapshot.types
    for kind in set(types) - {ANY}:
        if kind in known and known[kind].memory < memory:
            raise Refusal(
                f"type {kind} has {sizes.format_size(known[kind].memory)}, less than "
                f"--vgpu-mem={request.mem}; {_nearest(memory, snapshot)}"
            )
    if not known or ANY not in types:
        return None
    fitting = sorted(
        (each for each in known.values() if each.memory >= memory),
        key=lambda each: (each.memory, each.sms, each.max_sms, each.name),
    )
    if not fitting:
        raise Refusal(f"no vGPU has --vgpu-mem={request.mem}; {_nearest(memory, snapshot)}")
    shapes = [shape for shape, _ in _groups(request, snapshot)]
    for each in fitting:
        if any(shape.most(each.name) >= types.count(ANY) for shape in shapes):
            return each.name
    return fitting[0].name


def _nearest(memory: int, snapshot: Snapshot) -> str:
    """The type that comes closest, as the end of a sentence."""
    types = snapshot.types.values()
    larger = [each for each in types if each.memory >= memory]
    if larger:
        nearest = min(larger, key=lambda each: (each.memory, each.name))
        return f"{nearest.name} has {sizes.format_size(nearest.memory)}"
    nearest = max(types, key=lambda each: (each.memory, each.sms, each.name))
    return f"the largest is {nearest.name} with {sizes.format_size(nearest.memory)}"


def _typed(request: JobRequest, name: str) -> dict[str, str]:
    """The fields with the type in every request that left it open."""
    fields = ("tres_per_node", *OTHER_FIELDS)
    texts = {field: getattr(request, field) for field in fields}
    return {
        field: gres.with_type(text, name)
        for field, text in texts.items()
        if any(not item.type for item in gres.items(text))
    }


def _wanted(request: JobRequest, types: tuple[str, ...], whole: bool) -> Wanted:
    """``whole``: the types are all that a node gives, so a pattern can be checked against them."""
    comm = request.comm or patterns.DEFAULT
    known = whole and patterns.is_name(comm)
    try:
        demand = patterns.matrix(comm if known else patterns.DEFAULT, len(types))
        affinity = Affinity(request.affinity or Affinity.PREFER_NVLINK)
    except PatternError as error:
        raise Refusal(f"--vgpu-comm: {error}") from None
    except ValueError:
        kinds = ", ".join(each.value for each in Affinity)
        raise Refusal(f"--vgpu-affinity={request.affinity}: one of {kinds} is expected") from None
    return Wanted(types, demand, comm, affinity, colocate=bool(request.colocate))


# --- is it possible, and where? ---------------------------------------------------------------


def _candidates(request: JobRequest, wanted: Wanted, snapshot: Snapshot) -> Groups:
    """Where the request can ever run. Raises Refusal with what comes nearest."""
    groups = _groups(request, snapshot)
    if not groups:
        return []
    for kind in set(wanted.types):
        if not any(shape.slots(kind) for shape, _ in groups):
            there = sorted({name for shape, _ in groups for _, name in shape.homes})
            raise Refusal(f"no node has vGPUs of type {kind}; there are {', '.join(there)}")
    if wanted.colocate:
        _check_colocated(wanted, groups)
        return []
    possible = [(shape, nodes) for shape, nodes in groups if shape.can(wanted)]
    if not possible:
        raise Refusal(_impossible(wanted, groups))
    return possible


def _groups(request: JobRequest, snapshot: Snapshot) -> Groups:
    """The nodes that the request may use, by shape."""
    partitions = [name for name in request.partition.split(",") if name]
    required, excluded = _names(request.req_nodes), _names(request.exc_nodes)
    if not required and not excluded:
        return list(snapshot.in_partitions(partitions))

    def may_use(node: NodeView) -> bool:
        return node.info.name not in excluded and (not required or node.info.name in required)

    narrowed = [
        (shape, [node for node in nodes if may_use(node)])
        for shape, nodes in snapshot.in_partitions(partitions)
    ]
    return [(shape, nodes) for shape, nodes in narrowed if nodes]


def _names(text: str) -> frozenset[str]:
    """The names of a host list; none where it is not one, which is for Slurm to say."""
    try:
        return frozenset(expand(text)) if text else frozenset()
    except ValueError:
        return frozenset()


def _check_colocated(wanted: Wanted, groups: Groups) -> None:
    def fits(shape: Shape) -> bool:
        return all(shape.slots(kind) >= wanted.types.count(kind) for kind in set(wanted.types))

    if not any(fits(shape) for shape, _ in groups):
        most = max(shape.slots(wanted.types[0]) for shape, _ in groups)
        raise Refusal(f"no node has {wanted.count} {_vgpus(wanted)}; the most is {most}")


def _excluded(request: JobRequest, candidates: Groups, snapshot: Snapshot) -> dict[str, str]:
    """The user's excluded nodes and those which can never carry the request, though Slurm would
    try: it counts slots, not the different GPUs that they are on.
    """
    if request.req_nodes or not candidates:
        return {}
    able = {node.info.name for _, nodes in candidates for node in nodes}
    unable = [
        node.info.name
        for _, nodes in _groups(request, snapshot)
        for node in nodes
        if node.info.name not in able
    ]
    text = ",".join(filter(None, [request.exc_nodes, *collect_lines(unable)]))
    return {"exc_nodes": text} if unable and len(text) <= LONGEST_LIST else {}


def _impossible(wanted: Wanted, groups: Groups) -> str:
    """Why no node will ever do, and what the nearest is."""
    hard = {
        Affinity.REQUIRE_NVLINK: " that are all linked by NVLink",
        Affinity.SAME_NUMA: " of one NUMA node",
    }.get(wanted.affinity, "")
    most, nodes = 0, list[str]()
    for count in range(wanted.count - 1, 0, -1):
        smaller = Wanted(
            wanted.types[:count],
            patterns.matrix("none", count),
            "none",
            wanted.affinity,
        )
        nodes = [node.info.name for shape, there in groups if shape.can(smaller) for node in there]
        if nodes:
            most = count
            break
    sentence = f"no node can ever give {wanted.count} {_vgpus(wanted)} on different GPUs{hard}"
    if not most:
        return sentence
    return f"{sentence}; the most is {most} ({_some(nodes)})"


def _vgpus(wanted: Wanted) -> str:
    kinds = set(wanted.types) - {ANY}
    return f"vGPUs of type {'/'.join(sorted(kinds))}" if kinds else "vGPUs"


def _some(names: Iterable[str]) -> str:
    """Host names, cut to what a line of a terminal takes."""
    text = ",".join(collect_lines(sorted(set(names))))
    return text if len(text) <= 60 else f"{text[:57]}..."


# --- features ---------------------------------------------------------------------------------


def _needed_feature(wanted: Wanted, candidates: Groups) -> str | None:
    """The feature that stands for a hard demand on links, among those that nodes have."""
    if wanted.affinity is not Affinity.REQUIRE_NVLINK or wanted.count < 2:
        return None
    there = frozenset[str]().union(*(shape.ours for shape, _ in candidates))
    enough = [rung for rung in RUNGS if rung >= wanted.count and f"{LINKED}{rung}" in there]
    less = [rung for rung in RUNGS if rung < wanted.count and f"{LINKED}{rung}" in there]
    rungs = enough[:1] or less[-1:]
    return f"{LINKED}{rungs[0]}" if rungs else None


def _preferred(
    request: JobRequest, wanted: Wanted, candidates: Groups, final: str, snapshot: Snapshot
) -> str | None:
    """A feature whose nodes serve the request better than others do, and have room for it now.

    Slurm refuses a job whose preference no node can satisfy: so there is none where the job
    demands anything that cannot be judged here.
    """
    satisfied = features.parse(final)
    free_to_choose = not (request.prefer or request.req_nodes or request.picky)
    if satisfied is None or wanted.affinity is Affinity.NONE or wanted.count < 2:
        return None
    if not free_to_choose or any(not gres.items(each) for each in request.tres_per_node.split(",")):
        return None
    groups = [group for group in candidates if satisfied(group[0].features)]
    costs = {shape: _cost(shape, wanted, snapshot) for shape, _ in groups}
    known = [cost for cost in costs.values() if cost is not None]
    if not groups or len(known) < len(costs):
        return None
    names = frozenset[str]().union(*(shape.ours for shape in costs))
    ranked = sorted(
        (max(cost for shape, cost in costs.items() if cost and name in shape.ours), name)
        for name in names
    )
    need = _need(request)
    for cost, name in ranked:
        if cost < max(known) and _with_room(groups, name, wanted, need, request.nodes):
            return name
    return None


def _need(request: JobRequest) -> Need:
    """What the request takes of a node beside vGPUs."""
    tasks = -(-request.tasks // max(1, request.nodes))
    cpus = max(1, tasks) * max(1, request.cpus_per_task)
    return Need(cpus, request.mem_per_node or request.mem_per_cpu * cpus)


def _cost(shape: Shape, wanted: Wanted, snapshot: Snapshot) -> tuple[float, float] | None:
    """What the engine minimises, rounded so that equal machines stay equal.

    While a pattern has not been worked out a ring stands in for it; None where not even that is.
    """
    best = shape.best_known(wanted)
    if best is None:
        snapshot.unsolved.add(wanted)
        best = shape.best_known(wanted.talking(patterns.DEFAULT))
    if best is None:
        return None
    slowest = best.bottleneck_gbps or float("inf")
    return round(1 / slowest, 6), round(best.sum_cost, 6)


def _with_room(
    groups: Groups,
    name: str,
    wanted: Wanted,
    need: Need,
    needed: int,
) -> bool:
    """Whether enough nodes with the feature could start the request now."""
    found = 0
    for shape, nodes in groups:
        if name in shape.ours:
            for node in nodes:
                found += node.has_room(wanted, need)
                if found >= max(1, needed):
                    return True
    return False


# --- a job that is changed --------------------------------------------------------------------


def _modified(request: JobRequest, snapshot: Snapshot) -> dict[str, str]:
    """A change may ask for other vGPUs, and must not lose the features that the job needs."""
    if gres.items(request.tres_per_node):
        _submitted(request, snapshot)
    needs = segment.get_field(request.admin_comment, NEEDS)
    kept = request.features == needs or request.features.endswith(f")&{needs}")
    if request.features and needs and not kept:
        return {"features": features.both(request.features, needs)}
    return {}
