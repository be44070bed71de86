"""gres.conf against the plan."""

from collections.abc import Iterator
from dataclasses import replace

from gres import slurmconf
from gres.check.finding import RESTART, Finding
from gres.check.slurm_conf import differences
from gres.check.state import State
from gres.slurmconf import Entry

_AGAIN = f"run vgpu config generate, copy gres.conf to the nodes, {RESTART}"


def check(state: State) -> Iterator[Finding]:
    if state.gres is None:
        yield Finding(
            "gres-conf",
            str(state.directory / "gres.conf"),
            state.missing["gres.conf"].partition(": ")[2],
            'slurmctld drains the nodes: "gres/vgpu count reported lower than configured"',
            "run vgpu config generate",
        )
        return
    for alike in state.alike:
        for finding in _node(state, alike.names[0]):
            for name in alike.names:
                yield replace(finding, nodes=(name,))
    yield from _unplanned(state)


def _node(state: State, name: str) -> Iterator[Finding]:
    wanted = slurmconf.gres_entries(state.expected_gres, name)
    ours = {entry.name for entry in wanted} | {"vgpu"}
    entries = slurmconf.gres_entries(state.gres or [], name)
    found = [entry for entry in entries if entry.name in ours]
    yield from _cores(state, name, found)
    counts, expected = slurmconf.gres_counts(found), slurmconf.gres_counts(wanted)
    if counts != expected:
        yield _counts(state, name, expected, counts, found)
        return
    for here, there in zip(found, wanted, strict=True):
        if here.device != there.device:
            yield _device(here, there)
            return


def _counts(
    state: State, name: str, wanted: dict[str, int], found: dict[str, int], entries: list[Entry]
) -> Finding:
    """More or fewer devices than planned, or the planned number under another type."""
    strange = [gres for gres in found if gres not in wanted]
    lacking = [gres for gres in wanted if found.get(gres, 0) < wanted[gres]]
    at = strange[0] if strange else next(iter(lacking), "")
    where = next((e.where for e in entries if e.gres == at), str(state.directory / "gres.conf"))
    if strange and lacking:
        return Finding(
            "gres-type",
            where,
            f"{differences(wanted, found)}",
            f"slurmd ignores {strange[0]}: A line in gres.conf for GRES {strange[0]} has "
            f"{found[strange[0]]} more configured than expected in slurm.conf",
            _AGAIN,
            (name,),
        )
    kind = at.partition(":")[0] or "vgpu"
    few, many = sum(found.values()), sum(wanted.values())
    return Finding(
        "gres-count",
        where,
        differences(wanted, found),
        f'slurmctld drains the node: "gres/{kind} count reported lower than configured '
        f'({few} < {many})", or logs: gres_node_config_unpack: gres/{kind} lacks "File=" parameter'
        if lacking
        else "slurmd ignores what is too much, and slots are not what vgpu.conf says",
        _AGAIN,
        (name,),
    )


def _device(here: Entry, there: Entry) -> Finding:
    """The first device that is not as planned though all counts are."""
    if (here.gres, here.file) != (there.gres, there.file):
        return Finding(
            "gres-order",
            here.where,
            f"{here.gres} with File={here.file} where the plan has {there.gres} with {there.file}",
            "slots are not what vgpu.conf says: jobs get another type than they asked for",
            _AGAIN,
        )
    if here.links != there.links:
        return Finding(
            "gres-links",
            here.where,
            f"Links={here.links or '(none)'} where this release of Slurm wants "
            f"{there.links or '(none)'}",
            "Slurm hands out the worst linked GPUs together",
            _AGAIN,
        )
    return Finding(
        "gres-cores",
        here.where,
        f"Cores={here.cores or '(none)'} where the plan has {there.cores or '(none)'}",
        "jobs get cores on the other side of the machine from their GPU",
        _AGAIN,
    )


# --- cores against sockets ------------------------------------------------------------------------


def _cores(state: State, name: str, entries: list[Entry]) -> Iterator[Finding]:
    """Cores= must exist, and be whole sockets."""
    node = state.controller.nodes.get(name) if state.controller else None
    if node is None or not node.sockets or not node.cores:
        return
    total = node.sockets * node.cores
    checked: set[str] = set()
    for entry in entries:
        if not entry.cores or entry.where in checked:
            continue
        checked.add(entry.where)
        cores = _numbers(entry.cores)
        shape = f"{node.sockets} sockets of {node.cores} cores"
        if not cores or max(cores) >= total:
            yield Finding(
                "gres-cores",
                entry.where,
                f"Cores={entry.cores} where the node has {shape}, 0 to {total - 1}",
                f"slurmd logs: Invalid GRES data for {entry.name}, Cores={entry.cores}, and Slurm "
                "does not know which cores are near the GPU",
                "correct cores: in the plan (Slurm's own numbering, see slurmd -C), then " + _AGAIN,
            )
        elif any(
            0 < len(cores & socket) < node.cores for socket in _sockets(node.sockets, node.cores)
        ):
            yield Finding(
                "gres-cores",
                entry.where,
                f"Cores={entry.cores} where the node has {shape}: not whole sockets",
                "jobs bound to a socket get cores far from the GPU; some releases drain the node: "
                f'"gres/{entry.name} GRES core specification {entry.cores} for node … '
                "doesn't match socket boundaries\"",
                "state whole sockets in cores: of the plan, then " + _AGAIN,
            )


def _sockets(count: int, cores: int) -> Iterator[set[int]]:
    return (set(range(socket * cores, (socket + 1) * cores)) for socket in range(count))


def _numbers(text: str) -> set[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            return set()
        numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


# --- the other direction --------------------------------------------------------------------------


def _unplanned(state: State) -> Iterator[Finding]:
    """Lines of GRES vgpu for nodes that the plan does not have."""
    planned = set(state.group_of())
    for line in state.gres or []:
        if line.values.get("name") == "vgpu" and "nodename" in line.values:
            others = slurmconf.host_set(line.values["nodename"]) - planned
            if others:
                yield Finding(
                    "unplanned",
                    line.where,
                    "vGPUs on a node that is not in the plan",
                    "vgpu.conf says nothing of these slots: steps that get one fail",
                    "add the node to the plan, or run vgpu config generate again",
                    tuple(sorted(others)),
                )
