"""Claims about vgpu-agent: its questions, its advice, its socket and its report."""

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysched import vgpuconf
from pysched.agent import cores, question, reporter
from pysched.agent.advice import AdviceError, Adviser
from pysched.lineserver import LineServer, ServerError
from pysched.placement import Affinity, PlacementError, Policy
from pysched.slurm import SlurmError
from pysched.topology import Topology, nvml
from pysched.vgpud_client import Binding, Vgpu
from tests.unit.fake_nvml import FakeNvml

PAIRS = nvml.read(FakeNvml(bonds={(0, 1): 12, (2, 3): 12}, numa=(0, 0, 1, 1)), Path("/nonexistent"))
CONF = """\
Version=1
Type=a Memory=4GiB SMs=10
Type=b Memory=4GiB SMs=10
Node=n1 GPU=0 Memory=40GiB SMs=108
Node=n1 GPU=1 Memory=40GiB SMs=108
Node=n1 GPU=2 Memory=40GiB SMs=108
Node=n1 GPU=3 Memory=40GiB SMs=108
Node=n1 Slot=0-7 Type=a GPU=0,1,2,3
Node=n1 Slot=8-11 Type=b GPU=0,1,2,3
"""
NODE = vgpuconf.parse(CONF).node("n1")


def bound(job: int, slot: int, minor: int, kind: str = "a") -> Binding:
    vgpu = Vgpu(100 * job + slot, 1, "GPU-0", minor, 108, 10, 10, slot, 1, kind, "")
    return Binding(vgpu, job, 0, 1, 0, 0, None, 0, 0, 0, 0, 0, 0, 0, 0, 0, "")


def ask(*slots: int, job: int = 7, **more: object) -> question.Question:
    text = json.dumps({"job": job, "step": 0, "slots": slots, "n": len(slots), **more})
    return question.parse(text)


def advise(asked: question.Question, *bindings: Binding, topology: Topology = PAIRS) -> list[int]:
    return Adviser(topology, NODE).advise(asked, bindings).gpus


# --- questions ------------------------------------------------------------------------------------


def test_that_the_question_of_the_spank_plugin_is_read() -> None:
    asked = question.parse(
        b'{"job":42,"step":4294967291,"slots":[0,12],"n":2,"cores":"0-1","comm":"chain",'
        b'"affinity":"require_nvlink"}'
    )
    assert (asked.job, asked.slots, asked.cores) == (42, (0, 12), frozenset({0, 1}))
    assert (asked.pattern, asked.demand) == ("chain", ((0, 1), (1, 0)))
    assert asked.affinity is Affinity.REQUIRE_NVLINK


def test_that_ranks_that_say_nothing_are_placed_for_a_ring() -> None:
    asked = ask(0, 1, 2, comm=None, affinity="none", cores="")
    assert (asked.pattern, asked.demand) == ("ring", ((0, 1, 1), (1, 0, 1), (1, 1, 0)))


def test_that_a_matrix_comes_as_rows() -> None:
    assert ask(0, 1, comm=[[0, 2], [5, 0]]).demand == ((0, 5), (5, 0))


WRONG = {
    "no JSON": "ring",
    "no object": "[1]",
    "no job": '{"slots":[1]}',
    "no slots": '{"job":1}',
    "slots of another kind": '{"job":1,"slots":["1"]}',
    "a slot twice": '{"job":1,"slots":[1,1]}',
    "another count": '{"job":1,"slots":[1],"n":2}',
    "a pattern that is none": '{"job":1,"slots":[1],"comm":"torus"}',
    "a pattern of another size": '{"job":1,"slots":[1],"comm":"tp2xdp2"}',
    "a matrix of another size": '{"job":1,"slots":[1],"comm":[[0,1],[1,0]]}',
    "an affinity that is none": '{"job":1,"slots":[1],"affinity":"near"}',
    "cores that are none": '{"job":1,"slots":[1],"cores":"x"}',
    "nesting without end": "[" * 100_000,
}


@pytest.mark.parametrize("what", WRONG)
def test_that_a_question_is_refused_with(what: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        question.parse(WRONG[what])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["job", "slots", "comm", "n", "cores", "affinity"]), inner
            )
        ),
    )
)
def test_that_no_json_makes_the_reader_fall_over(value: object) -> None:
    try:
        question.parse(json.dumps(value))
    except ValueError as error:
        assert str(error)


def test_that_a_long_reason_is_cut_to_what_the_plugin_keeps() -> None:
    line = question.answer([1], "x" * 500)
    assert len(json.loads(line)["why"]) == question.LONGEST_WHY


# --- advice ---------------------------------------------------------------------------------------


def test_that_two_slots_go_to_the_intact_pair() -> None:
    full = [bound(1, 0, 0), bound(2, 4, 0), bound(3, 8, 0, "b")]
    assert sorted(advise(ask(1, 2), *full)) == [2, 3]


def test_that_slots_of_another_type_do_not_count_as_free() -> None:
    taken = [bound(1, 0, 0), bound(2, 4, 0), bound(3, 1, 2), bound(4, 5, 2)]
    assert sorted(advise(ask(2, 3), *taken)) == [1, 3]


def test_that_slots_which_are_bound_stay_where_they_are() -> None:
    assert set(advise(ask(0, 1), bound(7, 0, 3))) == {2, 3}


def test_that_a_bound_slot_of_another_type_stays_the_one_that_it_is() -> None:
    full = [bound(1, slot, 2, "a") for slot in (2, 6)]
    gpus = advise(ask(0, 8), bound(7, 8, 3, "b"), *full)
    assert gpus[1] == 3 and gpus[0] in (0, 1)


def test_that_gpus_of_the_jobs_other_steps_come_last() -> None:
    assert advise(ask(1), bound(7, 0, 0)) != [0]
    others = [
        bound(9, slot, minor) for slot, minor in ((1, 1), (5, 1), (2, 2), (6, 2), (3, 3), (7, 3))
    ]
    assert advise(ask(4), bound(7, 0, 0), *others) == [0]


def test_that_minors_are_told_not_indices() -> None:
    turned = nvml.read(
        FakeNvml(bonds={(0, 1): 12, (2, 3): 12}, minors=(3, 2, 1, 0)), Path("/nonexistent")
    )
    full = [bound(1, 0, 0), bound(2, 4, 0)]
    found = Adviser(turned, NODE).advise(ask(1, 2), full)
    assert sorted(found.gpus) == [2, 3] and found.why.startswith("GPUs 3,2 for ring")


def test_that_a_hard_affinity_that_cannot_be_met_gives_no_advice() -> None:
    with pytest.raises(PlacementError, match="no 3 of the 4 GPUs"):
        advise(ask(0, 1, 2, affinity="require_nvlink"))


def test_that_a_slot_that_vgpu_conf_lacks_gives_no_advice() -> None:
    with pytest.raises(AdviceError, match="gives node n1 no slot 12"):
        advise(ask(12))


def test_that_the_steps_cores_draw_it_to_their_gpus() -> None:
    cpus = [frozenset({core}) for core in range(32)]
    near = Adviser(PAIRS, NODE, cpus)
    assert near.advise(ask(0, 1, cores="20-21"), []).gpus == [2, 3]
    assert near.advise(ask(0, 1, cores="40-41"), []).gpus == [0, 1]


def test_that_packing_fills_a_gpu_first() -> None:
    assert Adviser(PAIRS, NODE, policy=Policy.PACK).advise(ask(0), [bound(1, 2, 2)]).gpus == [2]
    assert Adviser(PAIRS, NODE).advise(ask(0), [bound(1, 0, 0)]).gpus != [0]


def test_that_cores_are_counted_socket_after_socket(tmp_path: Path) -> None:
    for cpu, (socket_, threads) in enumerate([(1, "0,4"), (0, "1,5"), (1, "2,6"), (0, "3,7")] * 2):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{socket_}\n")
        (folder / "thread_siblings_list").write_text(f"{threads}\n")
    assert cores.read(tmp_path) == [{1, 5}, {3, 7}, {0, 4}, {2, 6}]
    assert cores.read(tmp_path / "nothing") == []


# --- the socket -----------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    """A server that answers in capitals."""
    path = tmp_path / "run" / "agent.sock"
    server = LineServer(path, lambda line: line.upper() + b"\n")
    server.start()
    yield path
    server.close()
    assert not path.exists()


def say(path: Path, *parts: bytes) -> bytes:
    """Send the parts, then read to the end."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(str(path))
        for part in parts:
            client.sendall(part)
        found = b""
        while part := client.recv(1 << 16):
            found += part
        return found


def test_that_a_line_gets_a_line(served: Path) -> None:
    assert say(served, b"one ", b"line\n") == b"ONE LINE\n"
    assert served.stat().st_mode & 0o777 == 0o600


def test_that_half_a_line_or_too_long_a_line_gets_nothing(served: Path) -> None:
    with socket.socket(socket.AF_UNIX) as idle:
        idle.connect(str(served))
        assert say(served, b"next\n") == b"NEXT\n"
    with contextlib.suppress(ConnectionError):
        assert say(served, b"x" * (1 << 20), b"\n") == b""
    assert say(served, b"next\n") == b"NEXT\n"


def test_that_a_socket_left_behind_is_replaced_but_not_a_served_one(
    tmp_path: Path, served: Path
) -> None:
    left = tmp_path / "left.sock"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(left))
    server = LineServer(left, bytes)
    server.start()
    server.close()
    with pytest.raises(ServerError, match="served by another process"):
        LineServer(served, bytes)


def test_that_an_answer_that_fails_costs_that_answer_only(tmp_path: Path) -> None:
    def answer(line: bytes) -> bytes:
        return {b"good": b"fine"}[line]

    server = LineServer(tmp_path / "s", answer)
    server.start()
    assert say(tmp_path / "s", b"bad\n") == b""
    assert say(tmp_path / "s", b"good\n") == b"fine"
    server.close()


# --- the report -----------------------------------------------------------------------------------


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scontrol that keeps one node in a file."""
    state, script = tmp_path / "node", tmp_path / "scontrol"
    script.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = update ]; then\n'
        f'  echo "$3" | sed "s/^Extra=//" >{state}; echo "$2" >>{tmp_path}/updates\n'
        f'else printf "NodeName=n1 Arch=x86_64\\n   Extra=%s\\n" "$(cat {state})"; fi\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return state


def test_that_the_report_is_written_only_when_it_is_new(slurm: Path) -> None:
    slurm.write_text("rack 3\n")
    assert reporter.report("n1", "1;x=2")
    assert slurm.read_text() == "rack 3 vgpu{1;x=2}\n"
    assert not reporter.report("n1", "1;x=2")
    assert reporter.report("n1", "1;x=3")
    assert slurm.read_text() == "rack 3 vgpu{1;x=3}\n"
    assert (slurm.parent / "updates").read_text() == "NodeName=n1\n" * 2


def test_that_an_unknown_node_is_not_written_to(slurm: Path) -> None:
    slurm.write_text("rack 3\n")
    with pytest.raises(SlurmError, match="no such node"):
        reporter.report("n2", "1;x=2")
    assert slurm.read_text() == "rack 3\n"
