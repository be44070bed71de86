"""Claims about vgpu-select's decisions."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysched import segment, vgpuconf
from pysched.select import features, gres, protocol
from pysched.select.cluster import Builder, Snapshot
from pysched.select.decide import decide
from pysched.select.protocol import Accept, JobRequest, ProtocolError, Refuse
from pysched.slurm import NodeInfo
from pysched.topology import report, smi
from tests.unit.topo_expected import FOLDER

CONF = """\
Version=1
Type=a4 Memory=4GiB SMs=15
Type=a8 Memory=8GiB SMs=30
Type=b8 Memory=8GiB SMs=20
Node=sw[1-2] GPU=0 Memory=40GiB SMs=108
Node=sw[1-2] GPU=1 Memory=40GiB SMs=108
Node=sw[1-2] GPU=2 Memory=40GiB SMs=108
Node=sw[1-2] GPU=3 Memory=40GiB SMs=108
Node=sw[1-2] GPU=4 Memory=40GiB SMs=108
Node=sw[1-2] GPU=5 Memory=40GiB SMs=108
Node=sw[1-2] GPU=6 Memory=40GiB SMs=108
Node=sw[1-2] GPU=7 Memory=40GiB SMs=108
Node=sw[1-2] Slot=0-7 Type=a4 GPU=0,1,2,3,4,5,6,7
Node=pair[1-2],pcie[1-2] GPU=0 Memory=40GiB SMs=108
Node=pair[1-2],pcie[1-2] GPU=1 Memory=40GiB SMs=108
Node=pair[1-2],pcie[1-2] GPU=2 Memory=40GiB SMs=108
Node=pair[1-2],pcie[1-2] GPU=3 Memory=40GiB SMs=108
Node=pair[1-2],pcie[1-2] Slot=0-7 Type=a4 GPU=0,1,2,3
Node=pair[1-2] Slot=8-9 Type=b8 GPU=0,1
Node=pcie[1-2] Slot=8-11 Type=a8 GPU=0,1,2,3
"""
MAPS = {
    "sw": "aws_p4d_a100_no_nic.txt",
    "pair": "a100_pcie_4gpu_bridge_pairs.txt",
    "pcie": "pcie_4gpu_phb.txt",
}
FEATURES = {
    "sw": {"vgpu-nvlink2", "vgpu-nvlink4", "vgpu-nvlink8", "vgpu-nvswitch", "big"},
    "pair": {"vgpu-nvlink2"},
    "pcie": {"vgpu-pcie"},
}
SLOTS = {"sw": {"a4": 8}, "pair": {"a4": 8, "b8": 2}, "pcie": {"a4": 8, "a8": 4}}


def report_of(kind: str) -> str:
    topology = smi.read((FOLDER / MAPS[kind]).read_text())
    minors = tuple(
        type(gpu)(gpu.rates, at, gpu.name, gpu.numa, gpu.cpus)
        for at, gpu in enumerate(topology.gpus)
    )
    return report.write(type(topology)(minors, topology.links, switch=topology.switch))


def node(name: str, used: Iterable[int] = (), **more: object) -> NodeInfo:
    kind = name.rstrip("0123456789")
    fields: dict[str, object] = {
        "name": name,
        "states": frozenset({"IDLE"}),
        "partitions": ("gpu", kind),
        "features": frozenset(FEATURES[kind]),
        "slots": SLOTS[kind],
        "used": {},
        "used_slots": frozenset(used),
        "cpus": 32,
        "cpus_used": 0,
        "memory": 64000,
        "memory_used": 0,
        "report": report_of(kind),
    }
    return NodeInfo(**{**fields, **more})  # type: ignore[arg-type]


ALL = ("sw1", "sw2", "pair1", "pair2", "pcie1", "pcie2")


def cluster(*nodes: NodeInfo, conf: str | None = CONF) -> Snapshot:
    parsed = vgpuconf.parse(conf) if conf else None
    snapshot = Builder().build(nodes or [node(name) for name in ALL], parsed)
    snapshot.prepare()
    return snapshot


def ask(
    request: str = "gres:vgpu:4", snapshot: Snapshot | None = None, **more: object
) -> dict[str, str]:
    answer = decide(JobRequest(tres_per_node=request, **more), snapshot or cluster())  # type: ignore[arg-type]
    assert isinstance(answer, Accept), answer
    return dict(answer.changes)


def refused(request: str = "gres:vgpu:4", snapshot: Snapshot | None = None, **more: object) -> str:
    answer = decide(JobRequest(tres_per_node=request, **more), snapshot or cluster())  # type: ignore[arg-type]
    assert isinstance(answer, Refuse), answer
    return answer.message


# --- types ----------------------------------------------------------------------------------------


def test_that_memory_finds_the_smallest_fitting_type() -> None:
    changes = ask("gres:vgpu:1", mem="3GiB")
    assert changes["tres_per_node"] == "gres:vgpu:a4:1"
    assert segment.get_field(changes["admin_comment"], "type") == "a4"


def test_that_of_equal_memory_the_smaller_share_fits_best() -> None:
    assert ask("gres/vgpu:2", mem="7GiB")["tres_per_node"] == "gres/vgpu:b8:2"


def test_that_a_type_which_no_node_has_so_often_is_passed_over() -> None:
    assert ask("gres:vgpu:3", mem="7GiB")["tres_per_node"] == "gres:vgpu:a8:3"


def test_that_other_gres_stay_as_they_are() -> None:
    changes = ask("gres:gpu:1,gres:vgpu:2,gres:nic", mem="8GiB")
    assert changes["tres_per_node"] == "gres:gpu:1,gres:vgpu:b8:2,gres:nic"


def test_that_requests_per_task_get_a_type_too() -> None:
    answer = decide(JobRequest(tres_per_task="gres/vgpu:2", mem="8GiB"), cluster())
    assert isinstance(answer, Accept)
    assert answer.changes["tres_per_task"] == "gres/vgpu:b8:2"


def test_that_what_a_task_asks_for_is_on_one_node() -> None:
    answer = decide(JobRequest(tres_per_task="gres/vgpu:9"), cluster())
    assert isinstance(answer, Refuse) and "can ever give 9 vGPUs" in answer.message
    assert decide(JobRequest(tres_per_job="gres/vgpu:20"), cluster()) == Accept({})


REFUSED = {
    "more memory than any type has": (
        {"request": "gres:vgpu:1", "mem": "9GiB"},
        "no vGPU has --vgpu-mem=9GiB; the largest is a8 with 8GiB",
    ),
    "a type with less memory": (
        {"request": "gres:vgpu:a4:1", "mem": "7GiB"},
        "type a4 has 4GiB, less than --vgpu-mem=7GiB; a8 has 8GiB",
    ),
    "memory in a wrong unit": (
        {"mem": "7GB"},
        '--vgpu-mem: expected a whole number with KiB, MiB, GiB or TiB (or K, M, G, T), found "7GB"'
        "; write 7GiB",
    ),
    "a type that is not there": (
        {"request": "gres:vgpu:h100:1"},
        "no node has vGPUs of type h100; there are a4, a8, b8",
    ),
    "more than any node has GPUs": (
        {"request": "gres:vgpu:9"},
        "no node can ever give 9 vGPUs on different GPUs; the most is 8 (sw[1-2])",
    ),
    "more of a type than any node has": (
        {"request": "gres:vgpu:b8:3"},
        "no node can ever give 3 vGPUs of type b8 on different GPUs; the most is 2 (pair[1-2])",
    ),
    "more linked ones than there are": (
        {"request": "gres:vgpu:a8:2", "affinity": "require_nvlink"},
        "no node can ever give 2 vGPUs of type a8 on different GPUs that are all linked by NVLink; "
        "the most is 1 (pcie[1-2])",
    ),
    "a partition that has none": (
        {"request": "gres:vgpu:4", "partition": "pair,pcie", "affinity": "require_nvlink"},
        "no node can ever give 4 vGPUs on different GPUs that are all linked by NVLink; the most "
        "is 2 (pair[1-2])",
    ),
    "more on one NUMA node than there are": (
        {"request": "gres:vgpu:5", "affinity": "same_numa"},
        "no node can ever give 5 vGPUs on different GPUs of one NUMA node; the most is 4 "
        "(pcie[1-2],sw[1-2])",
    ),
    "more slots than a node has": (
        {"request": "gres:vgpu:13", "colocate": "yes"},
        "no node has 13 vGPUs; the most is 12",
    ),
    "a pattern of another size": (
        {"comm": "tp4xdp2"},
        "--vgpu-comm: tp4xdp2 needs 8 vGPUs a node, the step has 4",
    ),
    "an affinity that is none": (
        {"affinity": "near"},
        "--vgpu-affinity=near: one of none, prefer_nvlink, require_nvlink, same_numa is expected",
    ),
    "nodes that the user names": (
        {"request": "gres:vgpu:5", "req_nodes": "pair[1-2]"},
        "no node can ever give 5 vGPUs on different GPUs; the most is 4 (pair[1-2])",
    ),
    "hundreds": (
        {"request": "gres:vgpu:400"},
        "vgpu:400: 1 to 32 vGPUs a node are possible",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_that_a_request_is_refused_for(what: str) -> None:
    asked, message = REFUSED[what]
    assert refused(**asked) == message  # type: ignore[arg-type]


def test_that_colocated_vgpus_may_share_gpus() -> None:
    assert ask("gres:vgpu:a4:8", colocate="yes", partition="pair") == {}


# --- features -------------------------------------------------------------------------------------


def test_that_linked_gpus_are_demanded_as_a_feature() -> None:
    changes = ask(affinity="require_nvlink")
    assert changes["features"] == "vgpu-nvlink4"
    assert segment.get_field(changes["admin_comment"], "needs") == "vgpu-nvlink4"


def test_that_nodes_which_never_can_are_excluded() -> None:
    assert ask("gres:vgpu:8")["exc_nodes"] == "pair[1-2],pcie[1-2]"
    assert ask("gres:vgpu:8", exc_nodes="sw2")["exc_nodes"] == "sw2,pair[1-2],pcie[1-2]"
    assert ask(affinity="require_nvlink")["exc_nodes"] == "pair[1-2],pcie[1-2]"
    assert "exc_nodes" not in ask("gres:vgpu:4")
    assert "exc_nodes" not in ask("gres:vgpu:8", req_nodes="sw1,pair1", nodes=2)


def test_that_a_users_own_features_still_hold() -> None:
    changes = ask(affinity="require_nvlink", features="big|small", admin_comment="from the site")
    assert changes["features"] == "(big|small)&vgpu-nvlink4"
    assert changes["admin_comment"].startswith("from the site vgpu{")


def test_that_the_better_nodes_are_preferred_while_they_have_room() -> None:
    assert ask()["prefer"] == "vgpu-nvlink4"
    busy = [node(name, range(12)) for name in ("sw1", "sw2")]
    others = [node(name) for name in ALL[2:]]
    assert ask("gres:vgpu:2", cluster(*busy, *others))["prefer"] == "vgpu-nvlink2"
    full = [node(name, range(12)) for name in ("pair1", "pair2")]
    assert "prefer" not in ask("gres:vgpu:2", cluster(*busy, *full, *others[2:]))


FULL = {
    "slots in use": {"used": range(5)},
    "CPUs in use": {"cpus_used": 31, "cpus": 32},
    "the node drained": {"states": frozenset({"IDLE", "DRAIN"})},
    "the node down": {"states": frozenset({"DOWN", "NOT_RESPONDING"})},
}


@pytest.mark.parametrize("what", FULL)
def test_that_nothing_is_preferred_with(what: str) -> None:
    nodes = [node("sw1", **FULL[what]), node("pcie1")]  # type: ignore[arg-type]
    assert "prefer" not in ask("gres:vgpu:4", cluster(*nodes), tasks=2)
    assert ask("gres:vgpu:4", cluster(node("sw1"), node("pcie1")), tasks=2)["prefer"]


def test_that_a_job_of_two_nodes_needs_room_on_two() -> None:
    one, two = cluster(node("sw1"), node("pcie1")), cluster(node("sw1"), node("sw2"), node("pcie1"))
    assert "prefer" not in ask("gres:vgpu:2", one, nodes=2)
    assert ask("gres:vgpu:2", two, nodes=2)["prefer"] == "vgpu-nvlink2"


LEFT_ALONE = {
    "a preference of the user's own": {"prefer": "big"},
    "no wish for links": {"affinity": "none"},
    "one vGPU": {"request": "gres:vgpu:1"},
    "nodes that are all alike": {"partition": "sw"},
    "features that nobody here can judge": {"features": "[rack1*2&rack2*4]"},
    "features that leave only equal nodes": {"features": "vgpu-pcie"},
    "nodes that the user names": {"req_nodes": "sw1"},
    "a reservation": {"picky": "reservation"},
    "other GRES beside": {"request": "gres:gpu:1,gres:vgpu:2"},
    "the better nodes excluded": {"exc_nodes": "sw[1-2],pair[1-2]"},
    "more memory than the better nodes have": {"mem_per_node": 64001},
    "more memory for all CPUs than they have": {
        "mem_per_cpu": 8001,
        "tasks": 4,
        "cpus_per_task": 2,
    },
}


@pytest.mark.parametrize("what", LEFT_ALONE)
def test_that_nothing_is_preferred_for(what: str) -> None:
    assert "prefer" not in ask(**LEFT_ALONE[what])


def test_that_a_preference_keeps_the_users_features() -> None:
    assert ask(features="big|vgpu-pcie")["prefer"] == "(big|vgpu-pcie)&vgpu-nvlink2"


def test_that_features_stand_in_for_maps_that_nobody_reported() -> None:
    silent = cluster(*(node(name, report=None) for name in ALL))
    assert ask(snapshot=silent, affinity="require_nvlink")["features"] == "vgpu-nvlink4"
    assert ask(snapshot=silent)["prefer"] == "vgpu-nvlink4"
    assert "all linked" in refused("gres:vgpu:a8:2", silent, affinity="require_nvlink")


def test_that_a_pattern_is_worked_out_when_nobody_waits_for_it() -> None:
    snapshot = cluster()
    assert ask("gres:vgpu:4", snapshot, comm="tp2xdp2")["prefer"] == "vgpu-nvlink4"
    (unsolved,) = snapshot.unsolved
    assert unsolved.pattern == "tp2xdp2"
    snapshot.unsolved.clear()
    snapshot.answers.clear()
    snapshot.prepare([unsolved])
    ask("gres:vgpu:4", snapshot, comm="tp2xdp2")
    assert not snapshot.unsolved


def test_that_nothing_is_preferred_before_anything_is_worked_out() -> None:
    cold = Builder().build([node(name) for name in ALL], vgpuconf.parse(CONF))
    assert "prefer" not in ask(snapshot=cold)
    assert "can ever give 9 vGPUs" in refused("gres:vgpu:9", cold)


def test_that_three_linked_gpus_are_found_where_no_rung_fits() -> None:
    pairs = cluster(node("sw1", features=frozenset({"vgpu-nvlink2"})))
    assert ask("gres:vgpu:3", pairs, affinity="require_nvlink")["features"] == "vgpu-nvlink2"


# --- what is not known ----------------------------------------------------------------------------


def test_that_without_vgpu_conf_types_are_those_of_slurm() -> None:
    bare = cluster(conf=None)
    assert "no node has vGPUs of type h100" in refused("gres:vgpu:h100:1", bare)
    assert "tres_per_node" not in ask("gres:vgpu:1", bare, mem="7GiB")


def test_that_a_cluster_without_vgpus_refuses_nothing() -> None:
    assert ask("gres:vgpu:99", Builder().build([], None)) == {}


def test_that_an_unknown_partition_refuses_nothing() -> None:
    assert ask("gres:vgpu:4", partition="elsewhere") == {}


def test_that_a_damaged_report_is_a_report_that_is_not_there() -> None:
    builder = Builder()
    snapshot = builder.build([node("sw1", report="1;gpu=x;crc=0")], vgpuconf.parse(CONF))
    assert ask(snapshot=snapshot, affinity="require_nvlink")["features"] == "vgpu-nvlink4"
    assert any("report of sw1:1:" in problem for problem in builder.problems)


def test_that_jobs_without_vgpus_are_left_alone() -> None:
    assert ask("gres:gpu:99") == {}


def test_that_a_builder_takes_over_what_has_not_changed() -> None:
    builder, conf = Builder(), vgpuconf.parse(CONF)
    first = builder.build([node(name) for name in ALL], conf)
    second = builder.build([node("sw1", [0]), *(node(name) for name in ALL[1:])], conf)
    shapes = [{shape for shape, _ in each.groups} for each in (first, second)]
    assert shapes[0] == shapes[1] and len(shapes[0]) == 3
    views = [
        {id(view) for nodes in each.groups.values() for view in nodes} for each in (first, second)
    ]
    assert len(views[0] & views[1]) == 5


# --- jobs that are changed ------------------------------------------------------------------------


def test_that_new_features_do_not_drop_what_the_job_needs() -> None:
    changes = ask(op="modify", features="big", admin_comment="x vgpu{needs=vgpu-nvlink4;gpus=n:1}")
    assert changes == {"features": "(big)&vgpu-nvlink4"}


@pytest.mark.parametrize(
    ("features", "kept"),
    [("vgpu-nvlink4", True), ("(a)&vgpu-nvlink4", True), ("a|vgpu-nvlink4", False)],
)
def test_that_features_which_still_demand_it_stay(features: str, kept: bool) -> None:
    comment = "vgpu{needs=vgpu-nvlink4}"
    changes = ask(op="modify", features=features, admin_comment=comment)
    assert changes == ({} if kept else {"features": f"({features})&vgpu-nvlink4"})


def test_that_a_change_to_an_impossible_request_is_refused() -> None:
    assert "can ever give 9 vGPUs" in refused("gres:vgpu:9", op="modify")


def test_that_any_other_change_passes() -> None:
    assert ask(op="modify") == {}


# --- gres and features as texts -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gres:vgpu:2", [gres.Item("", 2)]),
        ("gres/vgpu:a100-4g:2", [gres.Item("a100-4g", 2)]),
        ("gres:vgpu", [gres.Item("", 1)]),
        ("vgpu:a", [gres.Item("a", 1)]),
        ("gres/vgpu=2", [gres.Item("", 2)]),
        ("gres:vgpu:2,gres:vgpu:a:1,gres:gpu:4", [gres.Item("", 2), gres.Item("a", 1)]),
        ("gres:gpu:2", []),
        ("gres:xvgpu:2", []),
        ("", []),
    ],
)
def test_that_gres_is_read(text: str, found: list[gres.Item]) -> None:
    assert gres.items(text) == found


@pytest.mark.parametrize(
    ("text", "node_features", "satisfied"),
    [
        ("", "", True),
        ("a", "a", True),
        ("a", "b", False),
        ("a&b", "a,b", True),
        ("a|b&c", "a", True),
        ("(a|b)&c", "a", False),
        ("((a|b))&(c)", "b,c", True),
        ("a*2", "a", None),
        ("[a|b]", "a", None),
        ("(a", "a", None),
        ("a&", "a", None),
        ("a b", "a,b", None),
    ],
)
def test_that_features_are_judged(text: str, node_features: str, satisfied: bool | None) -> None:
    expression = features.parse(text)
    found = None if expression is None else expression(frozenset(node_features.split(",")))
    assert found is satisfied


# --- the protocol ---------------------------------------------------------------------------------

TEXTS = st.text(max_size=30)


@given(
    st.builds(
        JobRequest, features=TEXTS, comm=TEXTS, admin_comment=TEXTS, nodes=st.integers(0, 10**9 - 1)
    )
)
def test_that_a_request_reads_back(request: JobRequest) -> None:
    line = protocol.write_request(request)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert protocol.read_request(line[:-1].decode()) == request


@given(
    st.builds(Accept, st.dictionaries(st.from_regex("[a-z_]{1,9}", fullmatch=True), TEXTS))
    | st.builds(Refuse, TEXTS)
)
def test_that_an_answer_reads_back(answer: Accept | Refuse) -> None:
    data = protocol.write_answer(answer)
    assert int(data[:4], 16) == len(data) - 4
    assert protocol.read_answer(data[4:]) == answer


@pytest.mark.parametrize(
    "line",
    ["", "vgpu2\top=submit", "vgpu1\tcolour=red", "vgpu1\tnodes=x", "vgpu1\top=drop", "vgpu1\tmem",
     "vgpu1\tmem=1\tmem=2"],
)  # fmt: skip
def test_that_a_line_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(ProtocolError):
        protocol.read_request(line)


@given(st.text(max_size=200))
def test_that_no_line_makes_the_reader_fall_over(line: str) -> None:
    try:
        protocol.read_request(line)
    except ProtocolError as error:
        assert str(error)
