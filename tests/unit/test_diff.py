"""What a new plan changes, and the steps to it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pysched.cli.main import main

OLD = """\
version: 1
cards:
  a100: {memory: 40GiB, sms: 108}
types:
  big: {memory: 8GiB, sms: 20, max_sms: 40, slice: 10ms}
  small: {memory: 2GiB, sms: 5}
defaults:
  card: a100
nodes:
  - names: n[1-4]
    slurm: {Sockets: 2, CoresPerSocket: 16}
    features: [ib]
    gpus:
      - {gpu: 0, cores: 0-15, vgpus: {big: 2, small: 4}}
      - {gpu: 1, cores: 16-31, whole: true}
  - names: m1
    slurm: {Sockets: 2, CoresPerSocket: 16}
    gpus:
      - {gpu: 0, vgpus: {small: 8}}
"""

Changed = Callable[..., dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Install the old plan, change it, and run vgpu config diff."""
    monkeypatch.setenv("PATH", "/nowhere")  # no squeue

    def diff(changes: list[tuple[str, str]], *options: str) -> Result:
        etc, plan = tmp_path / "etc", tmp_path / "plan.yaml"
        plan.write_text(OLD)
        made = CliRunner().invoke(main, ["config", "generate", str(plan), "-o", str(etc)])
        assert made.exit_code == 0
        (etc / "slurm.conf").write_text("include slurm-vgpu.conf\n")
        text = OLD
        for old, new in changes:
            assert text.count(old) == 1
            text = text.replace(old, new)
        plan.write_text(text)
        return CliRunner().invoke(main, ["config", "diff", str(plan), "--dir", str(etc), *options])

    return diff


@pytest.fixture
def changed(run: Callable[..., Result]) -> Callable[..., dict[str, Any]]:
    def changed(*changes: tuple[str, str]) -> dict[str, Any]:
        done = run(list(changes), "--json")
        found: dict[str, Any] = json.loads(done.stdout)
        assert done.exit_code == (1 if found["steps"] else 0)
        return found

    return changed


def test_that_the_same_plan_changes_nothing(changed: Changed, run: Callable[..., Result]) -> None:
    assert changed() == {"cluster": [], "nodes": [], "jobs": [], "steps": []}
    assert run([]).stdout == "no change\n"


@pytest.mark.parametrize(
    ("old", "new", "nodes", "need", "text"),
    [
        ("big: 2, small: 4", "big: 2, small: 5", "n[1-4]", "drain", "vgpu:small 4 -> 5"),
        ("big: 2, small: 4", "big: 3", "n[1-4]", "drain", "vgpu:big 2 -> 3, vgpu:small 4 -> 0"),
        ("memory: 8GiB", "memory: 9GiB", "n[1-4]", "drain", "type big: memory 8192MiB -> 9216MiB"),
        ("sms: 20,", "sms: 21,", "n[1-4]", "drain", "type big: sms 20 -> 21"),
        ("slice: 10ms", "slice: 20ms", "n[1-4]", "vgpud", "type big: slice 10ms -> 20ms"),
        ("small: {memory: 2GiB, sms: 5}", "small: {memory: 2GiB, sms: 5, policy: cap}",
         "m1,n[1-4]", "vgpud", "type small: policy share -> cap"),
        ("whole: true", "vgpus: {big: 1}", "n[1-4]", "drain", "vgpu:big 2 -> 3, gpu:a100 1 -> 0"),
        ("cores: 0-15", "cores: 0-31", "n[1-4]", "slurm", "Cores= or Links= in gres.conf"),
        ("[ib]", "[ib, fast]", "n[1-4]", "reconfigure", "features"),
        ("  - names: m1\n", "  - names: m2\n", "m2", "slurm", "is new: vgpu:small:8"),
        ("names: n[1-4]", "names: n[1-3]", "n4", "drain",
         "is not in the plan any more: loses its vGPUs"),
    ],
)  # fmt: skip
def test_that_a_change_is_named_with_its_nodes_and_what_it_needs(
    changed: Changed, old: str, new: str, nodes: str, *, need: str, text: str
) -> None:
    found = [entry for entry in changed((old, new))["nodes"] if entry["nodes"] == nodes]
    assert len(found) == 1
    assert (found[0]["need"], text in ", ".join(found[0]["changes"])) == (need, True), found


def test_that_nodes_that_stay_as_they_are_are_not_named(changed: Changed) -> None:
    assert [entry["nodes"] for entry in changed(("small: 8", "small: 9"))["nodes"]] == ["m1"]


def test_that_a_new_description_of_the_machine_needs_a_restart(changed: Changed) -> None:
    features = "\n    features"
    found = changed((f"CoresPerSocket: 16}}{features}", f"CoresPerSocket: 20}}{features}"))
    assert found["nodes"][0]["changes"] == ["CoresPerSocket 16 -> 20"]
    assert found["nodes"][0]["need"] == "slurm"


def test_that_steps_to_a_drain_are_in_order(changed: Changed) -> None:
    words = [
        "DRAIN",
        "squeue -w m1",
        "config generate",
        "stop slurmd on m1",
        "restart slurmctld",
        "start slurmd on m1",
        "restart vgpud on m1",
        "State=RESUME",
        "config check",
    ]
    steps = changed(("small: 8", "small: 9"))["steps"]
    assert len(steps) == len(words)
    assert all(word in step for word, step in zip(words, steps, strict=True)), steps


def test_that_features_alone_need_no_restart(changed: Changed) -> None:
    steps = changed(("[ib]", "[ib, fast]"))["steps"]
    assert [step.split(" ")[0] for step in steps] == ["vgpu", "scontrol", "vgpu"]
    assert steps[1] == "scontrol reconfigure"


def test_that_a_new_kind_of_gres_restarts_slurm_everywhere(changed: Changed) -> None:
    found = changed(("whole: true", "shards: 4"))
    assert found["cluster"] == ["GresTypes gets shard"]
    assert "systemctl stop slurmd on all nodes" in found["steps"]


def test_that_new_rules_restart_vgpud_everywhere(changed: Changed) -> None:
    found = changed(("defaults:\n", "workloads: {cnn: 9ms}\ndefaults:\n"))
    assert found["cluster"] == ["Workload= of vgpu.conf"]
    assert [step.split(" ")[0] for step in found["steps"]] == ["vgpu", "systemctl", "vgpu"]
    assert found["steps"][1] == "systemctl restart vgpud on all nodes"


def test_that_changes_are_readable(run: Callable[..., Result]) -> None:
    done = run([("small: 8", "small: 9")])
    assert done.exit_code == 1
    assert done.stdout.startswith("m1: drain first\n    vgpu:small 8 -> 9\n")
    assert "\nsteps:\n  1. scontrol update NodeName=m1 State=DRAIN" in done.stdout
