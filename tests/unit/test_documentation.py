"""What the documentation shows is what the programs take."""

import json
import re
import textwrap
from pathlib import Path

import pytest

from gres import layout, planfile, render
from pysched import vgpuconf
from pysched.cli.main import main

DOCS = Path(__file__).parents[2] / "docs"


def example(page: str, first: str) -> str:
    """The indented block of a page that begins with this line."""
    text = (DOCS / page).read_text()
    match = re.search(rf"(?m)(^    {re.escape(first)}\n(?:    .*\n|\n(?=    ))*)", text)
    assert match, f"{page} has no example"
    return textwrap.dedent(match[1])


def test_that_the_example_of_a_plan_is_one() -> None:
    plan = planfile.parse(example("plan.md", "version: 1").encode())
    files = render.render(layout.build(plan), "22.05")
    assert "Gres=vgpu:a100-2g:8,vgpu:a100-4g:16" in files["slurm-vgpu.conf"]


def test_that_the_example_of_vgpu_conf_is_one() -> None:
    text = example("vgpu.conf.md", "# comment to the end of the line; blank lines are allowed")
    node = vgpuconf.parse(text).node("n002")
    assert [slot.type.name for slot in node.slots] == ["a100-4g"] * 2 + ["a100-2g"] * 2


def test_that_every_key_of_a_plan_is_described() -> None:
    schema = json.loads((DOCS.parent / "gres" / "plan.schema.json").read_text())
    parts = [schema, *schema["$defs"].values()]
    keys = {key for part in parts for key in part.get("properties", {})}
    page = (DOCS / "plan.md").read_text()
    assert {key for key in keys if not re.search(rf"[`{{ ]{key}[`:]", page)} == set()


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_that_commands_in_the_documentation_exist(page: str) -> None:
    text = (DOCS / page).read_text()
    for first, second in re.findall(r"`vgpu ([a-z]+)(?: ([a-z]+))?", text):
        command = main.get_command(None, first)  # type: ignore[arg-type]
        assert command is not None, f"vgpu {first}"
        if second and hasattr(command, "get_command"):
            assert command.get_command(None, second) is not None, f"vgpu {first} {second}"


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_that_links_between_pages_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", (DOCS / page).read_text()):
        assert (DOCS / target).exists(), target
