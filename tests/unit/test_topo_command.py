"""Claims about vgpu topo and vgpu place."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pysched import occupancy, segment, vgpuconf
from pysched.cli import topo
from pysched.cli.main import main
from pysched.slurm import SlurmError, scontrol_text
from pysched.slurm.model import NodeInfo
from pysched.topology import nvml, report, smi
from pysched.vgpud_client import Binding, Vgpu
from tests.unit.fake_nvml import FakeNvml
from tests.unit.topo_expected import DAMAGED, FOLDER

DGX1 = FOLDER / "dgx1_v100_4nic.txt"
PAIRS = FOLDER / "a100_pcie_4gpu_bridge_pairs.txt"


def vgpu(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments], input=stdin)


def output(*arguments: object, stdin: str | None = None) -> str:
    done = vgpu(*arguments, stdin=stdin)
    assert done.exit_code == 0, done.output
    return done.output


def refusal(*arguments: object, status: int = 2) -> str:
    done = vgpu(*arguments)
    assert done.exit_code == status, done.output
    return done.output


# --- vgpu place -----------------------------------------------------------------------------------


def test_that_place_prints_the_answer_as_json() -> None:
    found = json.loads(
        output("place", "--file", PAIRS, "-n", 2, "--free", "0=0,1=1,2=2,3=2", "--json")
    )
    assert (found["gpus"], found["bottleneck_gbps"]) == ([2, 3], 240.0)
    assert found["sum_cost"] == pytest.approx(1 / 240)
    assert found["why"].startswith("GPUs 2,3 for ring: 1 over NV12")


def test_that_place_says_why_in_one_line() -> None:
    assert output("place", "--file", DGX1, "-n", 8).count("\n") == 1


def test_that_gpus_which_are_not_named_free_are_not_used() -> None:
    assert json.loads(output("place", "--file", DGX1, "-n", 2, "--free", "4=1,6=1", "--json"))[
        "gpus"
    ] == [4, 6]


def test_that_gpus_named_full_leave_the_others() -> None:
    assert json.loads(output("place", "--file", PAIRS, "-n", 2, "--free", "0=0", "--json"))[
        "gpus"
    ] == [2, 3]


def test_that_place_reads_a_matrix_from_a_file(tmp_path: Path) -> None:
    matrix = tmp_path / "demand.txt"
    matrix.write_text("0 0 9 0\n0 0 0 9\n0 0 0 0\n0 0 0 0\n")
    found = json.loads(output("place", "--file", PAIRS, "-n", 4, "--comm", matrix, "--json"))
    pairs = {frozenset(found["gpus"][::2]), frozenset(found["gpus"][1::2])}
    assert pairs == {frozenset({0, 1}), frozenset({2, 3})}


def test_that_place_reads_standard_input_and_reports() -> None:
    text = report.write(smi.read(PAIRS.read_text()))
    for stdin in (PAIRS.read_text(), text, f"Extra=rack 3 vgpu{{{text}}}"):
        assert '"gpus": [0, 1]' in output("place", "--file", "-", "-n", 2, "--json", stdin=stdin)


def test_that_an_impossible_request_has_an_exit_code_of_its_own() -> None:
    said = refusal("place", "--file", PAIRS, "-n", 3, "--affinity", "require_nvlink", status=1)
    assert said == "vgpu: no 3 of the 4 GPUs with a free slot are all linked by NVLink\n"


WRONG = {
    "a damaged file": ("--file", FOLDER / next(iter(DAMAGED)), "-n", 2),
    "no such file": ("--file", "/nonexistent", "-n", 2),
    "an unknown pattern": ("--file", PAIRS, "-n", 2, "--comm", "torus"),
    "a pattern of another size": ("--file", PAIRS, "-n", 2, "--comm", "tp2xdp2"),
    "free slots that are no list": ("--file", PAIRS, "-n", 2, "--free", "0:1"),
    "a GPU that is not there": ("--file", PAIRS, "-n", 2, "--free", "7=1"),
    "a GPU twice": ("--file", PAIRS, "-n", 2, "--free", "1=1,1=2"),
    "CPUs that are no ranges": ("--file", PAIRS, "-n", 2, "--cpus", "8-0"),
}


@pytest.mark.parametrize("what", WRONG)
def test_that_place_refuses_in_one_line(what: str) -> None:
    said = refusal("place", *WRONG[what])
    assert said.startswith("vgpu: ") and said.count("\n") == 1


# --- vgpu topo ------------------------------------------------------------------------------------


def test_that_topo_shows_a_file_as_a_matrix() -> None:
    assert output("topo", "--file", PAIRS) == (
        "      GPU0  GPU1  GPU2  GPU3  NUMA  CPUS\n"
        "GPU0  X     NV12  SYS   SYS   0     0-51,104-155\n"
        "GPU1  NV12  X     SYS   SYS   0     0-51,104-155\n"
        "GPU2  SYS   SYS   X     NV12  1     52-103,156-207\n"
        "GPU3  SYS   SYS   NV12  X     1     52-103,156-207\n"
        "NVLink joins at most 2 GPUs all to all: 0-1, 2-3.\n"
    )


def test_that_topo_prints_all_as_json() -> None:
    found = json.loads(output("topo", "--file", DGX1, "--json"))
    assert len(found["gpus"]) == 8 and len(found["links"]) == 28
    assert found["links"][2] == {"gpus": [0, 3], "nvlinks": 2, "path": None, "gbps": 40.0}
    assert [0, 1, 2, 3] in found["linked_sets"]


def test_that_topo_prints_the_report_that_reads_back() -> None:
    text = output("topo", "--file", DGX1, "--report")
    assert report.read(text.strip()) == smi.read(DGX1.read_text())


def test_that_topo_draws_the_same_picture_twice(tmp_path: Path) -> None:
    first, second = tmp_path / "1.svg", tmp_path / "2.svg"
    for path in (first, second):
        assert output("topo", "--file", DGX1, "-o", path) == ""
    assert first.read_bytes() == second.read_bytes()
    assert b"NV2, 40 GB/s" in first.read_bytes() or b"<svg" in first.read_bytes()
    output("topo", "--file", PAIRS, "-o", tmp_path / "3.png")
    assert (tmp_path / "3.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["picture.gif", "picture", "missing/picture.svg"])
def test_that_topo_refuses_a_picture_it_cannot_make(name: str, tmp_path: Path) -> None:
    said = refusal("topo", "--file", DGX1, "-o", tmp_path / name)
    assert said.startswith(f"vgpu: {tmp_path / name}") and said.count("\n") == 1


def binding(job: int, minor: int, kind: str, slots: int = 1) -> Binding:
    vgpu_ = Vgpu(job, 1, "GPU-0", minor, 108, 15, 30, 0, slots, kind, "")
    return Binding(vgpu_, job, 0, 1, 0, 0, None, 0, 0, 0, 0, 0, 0, 0, 0, 0, "")


CONF = """\
Version=1
Type=a Memory=4GiB SMs=10
Type=b Memory=2GiB SMs=5
Node=n1 GPU=0 Memory=40GiB SMs=108
Node=n1 GPU=1 Memory=40GiB SMs=108
Node=n1 Slot=0-5 Type=a GPU=0,1
Node=n1 Slot=6-7 Type=b GPU=0,1
"""


def test_that_places_are_where_slots_are_at_home() -> None:
    state = occupancy.of(
        vgpuconf.parse(CONF).node("n1"), [binding(1, 0, "a", 2), binding(2, 1, "b")]
    )
    assert state.free() == {0: {"a": 1, "b": 1}, 1: {"a": 3, "b": 0}}
    assert (state.share_taken(0), state.share_taken(1)) == (0.5, 0.25)


def test_that_topo_marks_the_slots_in_use_on_this_node(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "vgpu.conf").write_text(CONF)
    fake = nvml.read(FakeNvml(gpus=2, bonds={(0, 1): 12}), Path("/nonexistent"))
    monkeypatch.setattr("pysched.paths.VGPU_CONF", tmp_path / "vgpu.conf")
    monkeypatch.setattr(topo.nvml, "read", lambda: fake)
    monkeypatch.setattr(topo.Vgpud, "bindings", lambda self: [binding(1, 1, "a")])
    said = output("topo", "--node-name", "n1")
    assert said.splitlines()[1].endswith("0/4") and said.splitlines()[2].endswith("1/4")
    output("topo", "--node-name", "n1", "-o", tmp_path / "used.svg")


def node_with(report_text: str | None) -> NodeInfo:
    return NodeInfo(
        "n1", frozenset({"IDLE"}), (), frozenset(), {}, {}, frozenset(), 1, 0, 1, 0, report_text
    )


def test_that_topo_shows_a_node_by_its_report(monkeypatch: pytest.MonkeyPatch) -> None:
    text = report.write(smi.read(PAIRS.read_text()))
    monkeypatch.setattr(scontrol_text, "nodes", lambda names: [node_with(text)])
    assert "NVLink joins at most 2 GPUs" in output("topo", "--node", "n1")


def test_that_topo_says_what_is_wrong_with_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scontrol_text, "nodes", lambda names: [node_with(None)])
    assert "node n1 has reported no topology: is vgpu-agent running" in refusal(
        "topo", "--node", "n1"
    )
    monkeypatch.setattr(scontrol_text, "nodes", lambda names: [node_with("1;gpu=x")])
    assert "report of n1:1:1:" in refusal("topo", "--node", "n1")

    def fails(names: list[str]) -> list[NodeInfo]:
        raise SlurmError("scontrol show node: Node n1 not found")

    monkeypatch.setattr(scontrol_text, "nodes", fails)
    assert refusal("topo", "--node", "n1") == "vgpu: scontrol show node: Node n1 not found\n"


# --- the segment ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "vgpu{new}"),
        ("rack 3", "rack 3 vgpu{new}"),
        ("vgpu{old}", "vgpu{new}"),
        ("rack 3 vgpu{old;x=1} spare", "rack 3 vgpu{new} spare"),
        ("a vgpu{cut off", "a vgpu{new} off"),
        ("vgpu{} vgpu{two}", "vgpu{new} vgpu{two}"),
    ],
)
def test_that_our_segment_is_replaced_in_place(before: str, after: str) -> None:
    assert segment.put(before, "new") == after
    assert segment.read(after) == "new"
