"""Whatever a plan says, it is generated or refused in one sentence; what is generated agrees."""

import re
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gres import layout, planfile, render, slurmconf
from gres.document import PlanError
from pysched import vgpuconf
from tests.unit.malformed_plans import GOOD
from tests.unit.random_plans import ANYTHING, plans


def generate(text: str) -> dict[str, str]:
    return render.render(layout.build(planfile.parse(text.encode())), "22.05")


def is_generated_or_refused(text: str) -> None:
    try:
        generate(text)
    except PlanError as error:
        assert re.match(r"plan\.yaml:\d+: .*expected ", str(error))
        assert "\n" not in str(error)


@settings(max_examples=40)
@given(plans())
def test_that_gres_conf_slurm_conf_and_vgpu_conf_agree(text: str) -> None:
    files = generate(text)
    gres = slurmconf.parse(files["gres.conf"], Path("gres.conf"))
    nodes = slurmconf.parse(files["slurm-vgpu.conf"], Path("slurm.conf"))
    conf = vgpuconf.parse(files["vgpu.conf"])
    for line in nodes:
        for name in slurmconf.host_set(line.values.get("nodename", "")):
            entries = slurmconf.gres_entries(gres, name)
            assert slurmconf.gres_counts(entries) == slurmconf.parse_gres(line.values["gres"])
            slots = [entry.type for entry in entries if entry.name == "vgpu"]
            assert [slot.type.name for slot in conf.node(name).slots] == slots


@settings(max_examples=40)
@given(plans())
def test_that_every_gpu_gets_what_the_plan_gives_it(text: str) -> None:
    plan: dict[str, Any] = yaml.safe_load(text)
    conf = vgpuconf.parse(generate(text)["vgpu.conf"])
    for node_set in plan["nodes"]:
        node = conf.node(node_set["names"])
        for entry in node_set["gpus"]:
            found: dict[str, int] = {}
            for slot in node.slots:
                if slot.gpu.minor == entry["gpu"]:
                    found[slot.type.name] = found.get(slot.type.name, 0) + 1
            assert found == entry.get("vgpus", {})


@settings(max_examples=40)
@given(plans())
def test_that_no_line_is_too_long_for_its_reader(text: str) -> None:
    for content in generate(text).values():
        assert max(len(line) for line in content.splitlines()) <= vgpuconf.MAX_LINE


@given(ANYTHING)
def test_that_anything_is_generated_or_refused(value: object) -> None:
    is_generated_or_refused(yaml.safe_dump(value))


@given(
    ANYTHING,
    st.sampled_from(["cards", "types", "defaults", "nodes", "workloads", "bursts", "cluster"]),
)
def test_that_anything_in_the_place_of_a_part_is_generated_or_refused(
    value: object, part: str
) -> None:
    is_generated_or_refused(yaml.safe_dump({**yaml.safe_load(GOOD), part: value}))


@given(st.data())
def test_that_a_plan_with_lines_torn_out_is_generated_or_refused(data: st.DataObject) -> None:
    lines = GOOD.splitlines()
    kept = data.draw(st.lists(st.sampled_from(range(len(lines))), unique=True).map(sorted))
    is_generated_or_refused("\n".join(lines[number] for number in kept))


@given(st.integers(0, len(GOOD) - 1), st.characters(codec="utf-8"))
def test_that_a_plan_with_a_wrong_character_is_generated_or_refused(at: int, char: str) -> None:
    is_generated_or_refused(GOOD[:at] + char + GOOD[at + 1 :])
