"""Claims about the three ways to read Slurm's nodes.

The texts are records of real daemons: scontrol of 22.05.8 and 24.11.5, pyslurm 25.11.2.
"""

import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysched.slurm import (
    NodeInfo,
    SlurmError,
    model,
    readers,
    scontrol,
    scontrol_json,
    scontrol_text,
    with_pyslurm,
)

DATA = Path(__file__).parents[1] / "data"
TEXT = (DATA / "scontrol" / "nodes-22.05.8.txt").read_text()
JSON = (DATA / "scontrol" / "nodes-24.11.5.json").read_text()
DUMP = json.loads((DATA / "pyslurm" / "slurm-25.11.7-pyslurm-25.11.2.json").read_text())


def from_text() -> list[NodeInfo]:
    return [scontrol_text.parse(record) for record in scontrol_text.records(TEXT)]


def test_that_the_text_of_22_05_is_read() -> None:
    first, second = from_text()
    assert first == NodeInfo(
        name="n1",
        states=frozenset({"MIXED"}),
        partitions=("main",),
        features=frozenset({"vgpu-nvlink2"}),
        slots={"v4g": 40},
        used={"v4g": 2},
        used_slots=frozenset({0, 1}),
        cpus=32,
        cpus_used=1,
        memory=64000,
        memory_used=0,
        report="1;x=2",
    )
    assert (second.usable, second.partitions, second.report) == (False, ("main", "debug"), None)
    assert (second.used, second.used_slots) == ({"v4g": 0}, frozenset())


def test_that_the_json_of_24_11_is_read() -> None:
    first, second = scontrol_json.parse(JSON)
    assert first == NodeInfo(
        name="n1",
        states=frozenset({"MIXED"}),
        partitions=("main",),
        features=frozenset({"vgpu-nvlink2"}),
        slots={"v4g": 4},
        used={"v4g": 2},
        used_slots=frozenset({0, 1}),
        cpus=4,
        cpus_used=1,
        memory=1,
        memory_used=0,
        report="1;x=2",
    )
    assert (second.states, second.usable) == (frozenset({"IDLE", "DRAIN"}), False)


def objects(records: dict[str, dict[str, Any]]) -> dict[str, SimpleNamespace]:
    """The dump's records as pyslurm's objects."""
    found = {}
    for name, record in records.items():
        layout = record.get("get_resource_layout_per_node()", {})
        found[name] = SimpleNamespace(
            **{key: value for key, value in record.items() if key.isidentifier()},
            get_resource_layout_per_node=lambda layout=layout: layout,
        )
    return found


def test_that_pyslurms_nodes_are_read_with_the_use_of_the_jobs() -> None:
    nodes = {
        node.name: node
        for node in with_pyslurm.convert(objects(DUMP["nodes"]), objects(DUMP["jobs"]))
    }
    assert set(nodes) == {"n0", "n1", "n2", "n3"}
    assert nodes["n0"].slots == {"a100": 32}
    assert (nodes["n0"].used, nodes["n0"].used_slots) == ({"a100": 2}, {0, 1})
    assert (nodes["n1"].used, nodes["n1"].used_slots) == ({"a100": 5}, {0, 1, 2, 16, 17})
    assert (nodes["n2"].used, nodes["n2"].usable) == ({}, True)
    assert (nodes["n1"].cpus, nodes["n1"].cpus_used, nodes["n1"].partitions) == (32, 2, ("gpu",))


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("vgpu:v4g:40", {"v4g": 40}),
        ("gpu:a100:4(S:0-1),vgpu:a:8(S:0,1),vgpu:b:4", {"a": 8, "b": 4}),
        ("vgpu:8", {"": 8}),
        ("vgpu:2K", {"": 2048}),
        ("vgpu", {"": 1}),
        ("shard:4", {}),
        ("", {}),
    ],
)
def test_that_gres_is_counted_by_type(text: str, slots: dict[str, int]) -> None:
    assert model.by_type(model.vgpus(text)) == slots


@pytest.mark.parametrize(
    ("text", "usable"),
    [
        ("IDLE", True),
        ("MIXED+CLOUD", True),
        ("ALLOCATED", True),
        ("IDLE+DRAIN", False),
        ("IDLE*", False),
        ("DOWN*+DRAIN", False),
        ("IDLE+RESERVED", False),
        ("MIXED$", False),
        ("IDLE~", False),
    ],
)
def test_that_a_state_says_whether_a_node_can_be_used(text: str, usable: bool) -> None:
    node = from_text()[0]
    assert NodeInfo(**{**vars(node), "states": model.states_of(text)}).usable is usable


def test_that_a_sites_own_text_is_not_taken_for_fields() -> None:
    fake = TEXT.replace("Comment=a b=c", "Comment=State=DOWN Gres=vgpu:x:9 NodeName=n7")
    assert scontrol_text.parse(scontrol_text.records(fake)[0]) == from_text()[0]


@given(st.text(max_size=200))
def test_that_no_text_makes_the_readers_fall_over(text: str) -> None:
    for read in (
        lambda: scontrol_text.parse(f"NodeName=n1 {text}"),
        lambda: scontrol_json.parse(text),
    ):
        try:
            read()
        except SlurmError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"nodes": 1}', '{"nodes": [{}]}', '{"nodes": [[]]}']
)
def test_that_json_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(SlurmError, match="scontrol show nodes --json cannot be read"):
        scontrol_json.parse(text)


# --- choosing -------------------------------------------------------------------------------------


@pytest.fixture
def fake_scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    script = tmp_path / "scontrol"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return script


def write(script: Path, body: str) -> None:
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("slurm-wlm 22.05.8", "text"),
        ("slurm 23.11.1", "text"),
        ("slurm-wlm 24.11.5", "json"),
        ("slurm 26.05.3", "json"),
    ],
)
def test_that_the_release_decides_how_nodes_are_read(
    fake_scontrol: Path, version: str, name: str
) -> None:
    write(fake_scontrol, f"echo {version}")
    assert readers.choose("auto")[0] == name


def test_that_pyslurm_is_used_where_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    pyslurm = ModuleType("pyslurm")
    pyslurm.Nodes = SimpleNamespace(load=lambda: objects(DUMP["nodes"]))  # type: ignore[attr-defined]
    pyslurm.Jobs = SimpleNamespace(load=lambda: objects(DUMP["jobs"]))  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, "pyslurm", pyslurm)
    name, reader = readers.choose("auto")
    assert name == "pyslurm" and len(reader()) == 4


def test_that_pyslurm_of_another_release_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, fake_scontrol: Path
) -> None:
    def fails() -> None:
        raise RuntimeError("Incompatible Slurm version")

    pyslurm = ModuleType("pyslurm")
    pyslurm.Nodes = SimpleNamespace(load=fails)  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, "pyslurm", pyslurm)
    write(fake_scontrol, "echo slurm-wlm 22.05.8")
    assert readers.choose("auto")[0] == "text"
    with pytest.raises(SlurmError, match="not for this release"):
        readers.choose("pyslurm")


SAYINGS = {
    "exit 1": "scontrol show node: exit code 1",
    "echo 'slurm_load_node error: Unable to contact slurm controller' >&2; exit 1": (
        "scontrol show node: slurm_load_node error: Unable to contact slurm controller"
    ),
    "sleep 5": "scontrol does not answer within 0.2 s",
}


@pytest.mark.parametrize("body", SAYINGS)
def test_that_a_scontrol_that_fails_is_one_sentence(fake_scontrol: Path, body: str) -> None:
    write(fake_scontrol, body)
    with pytest.raises(SlurmError) as caught:
        scontrol.run(["show", "node"], timeout=0.2)
    assert str(caught.value) == SAYINGS[body]


def test_that_a_scontrol_that_is_missing_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SlurmError, match="scontrol cannot be run: No such file"):
        readers.release()
