"""Plans that hypothesis makes up: good ones, and anything that YAML can say."""

from typing import Any

import yaml
from hypothesis import strategies as st

CARDS = {"a100": (40960, 108), "t4": (15360, 40), "odd.card-1": (23028, 46)}
CORES = 8  # of each of two sockets
PROFILES = ["1g.5gb", "2g.10gb", "3g.20gb"]


@st.composite
def types(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Types that fit on the smallest card several times."""
    name = st.from_regex(r"[a-z][a-z0-9_.-]{0,8}", fullmatch=True)
    names = draw(st.lists(name, min_size=1, max_size=4, unique=True))
    found = {}
    for name in names:
        sms = draw(st.integers(1, 10))
        found[name] = {
            "memory": f"{draw(st.integers(64, 3000))}MiB",
            "sms": sms,
            "max_sms": draw(st.integers(sms, 40)),
            "slice": f"{draw(st.integers(5, 100))}ms",
            "policy": draw(st.sampled_from(["share", "cap"])),
        }
    return found


@st.composite
def gpus(draw: st.DrawFn, kinds: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Up to eight GPUs, each used in one of the four ways."""
    entries = []
    fixed = draw(st.sampled_from(["shards", "mig"]))  # Slurm cannot have both on a node
    minors = draw(st.lists(st.integers(0, 7), min_size=1, max_size=8, unique=True))
    with_cores = draw(st.booleans())
    for minor in minors:
        entry: dict[str, Any] = {"gpu": minor, "card": draw(st.sampled_from(sorted(CARDS)))}
        if with_cores:
            socket = draw(st.integers(0, 1))
            entry["cores"] = f"{socket * CORES}-{socket * CORES + CORES - 1}"
        entry |= draw(use(entry["card"], kinds, fixed))
        entries.append(entry)
    return entries


@st.composite
def use(draw: st.DrawFn, card: str, kinds: dict[str, dict[str, Any]], fixed: str) -> dict[str, Any]:
    way = draw(st.sampled_from(["vgpus", "vgpus", "vgpus", "whole", fixed]))
    if way == "whole":
        return {"whole": True}
    if way == "shards":
        return {"shards": draw(st.integers(1, 64))}
    if way == "mig":
        ids = draw(st.lists(st.integers(0, 14), min_size=1, max_size=4, unique=True))
        cut = draw(st.integers(1, len(ids)))
        parts = {"1g.5gb": ids[:cut], "2g.10gb": ids[cut:]}
        return {"mig": {name: part for name, part in parts.items() if part}}
    memory, sms = CARDS[card]
    counts = {}
    for name in draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, unique=True)):
        each = int(kinds[name]["memory"].removesuffix("MiB")), kinds[name]["sms"]
        most = min(memory // each[0], sms // each[1], 12)
        if most:
            counts[name] = draw(st.integers(1, most))
            memory, sms = memory - counts[name] * each[0], sms - counts[name] * each[1]
    return {"vgpus": counts} if counts else {"whole": True}


@st.composite
def node_set(draw: st.DrawFn, names: str, kinds: dict[str, dict[str, Any]]) -> dict[str, Any]:
    cards = draw(gpus(kinds))
    minors = sorted(entry["gpu"] for entry in cards)
    pairs = [f"{a}-{b}" for a in minors for b in minors if a < b]
    linked = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    nvlink: Any = {pair: draw(st.integers(1, 12)) for pair in linked}
    return {
        "names": names,
        "slurm": {"Sockets": 2, "CoresPerSocket": CORES, "RealMemory": 1000},
        "features": draw(st.lists(st.sampled_from(["ib", "fast", "x_y"]), unique=True)),
        "nvlink": draw(st.sampled_from([nvlink, nvlink, "switch", "none"])) or "none",
        "gpus": cards,
    }


@st.composite
def plans(draw: st.DrawFn, most_sets: int = 3) -> str:
    """The text of a plan that is right."""
    kinds = draw(types())
    count = draw(st.integers(1, most_sets))
    sets = [draw(node_set(f"n{number}", kinds)) for number in range(1, count + 1)]
    return yaml.safe_dump(
        {
            "version": 1,
            "cards": {n: {"memory": f"{m}MiB", "sms": s} for n, (m, s) in CARDS.items()},
            "types": kinds,
            "nodes": sets,
            "cluster": {"slurm": "22.05", "runtime_dir": "/run/vgpu/%n"},
        }
    )


_KEYS = [
    "version", "cards", "types", "nodes", "cluster", "defaults", "workloads", "bursts", "memory",
    "sms", "max_sms", "names", "gpus", "gpu", "card", "vgpus", "mig", "whole", "shards", "nvlink",
    "slurm", "features", "cores", "uuid", "slice", "policy", "reserve", "a100", "0-1", "<<",
]  # fmt: skip
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 70000),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.sampled_from(["4GiB", "0-3", "a100", "n[1-3]", "switch", "share", "10ms"]),
)
ANYTHING = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(_KEYS), inner, max_size=4)
    ),
    max_leaves=20,
)
