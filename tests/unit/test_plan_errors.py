"""What a wrong plan is answered with."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gres import planfile
from gres.document import PlanError
from pysched.cli.main import main
from tests.unit.malformed_plans import GOOD, MALFORMED, Malformed


def error_of(text: str) -> str:
    with pytest.raises(PlanError) as caught:
        planfile.parse(text.encode())
    return str(caught.value)


def wrong_line(malformed: Malformed) -> int:
    """The line that the error should name, from 1."""
    lines = malformed.text.split("\n")
    if malformed.at:
        return next(number for number, line in enumerate(lines, 1) if malformed.at in line)
    pairs = zip(lines, GOOD.split("\n"), strict=False)
    return next(number for number, (new, old) in enumerate(pairs, 1) if new != old)


def generate(plan: str, folder: Path) -> Result:
    file = folder / "plan.yaml"
    file.write_text(plan)
    return CliRunner().invoke(main, ["config", "generate", str(file), "-o", str(folder / "out")])


def test_that_there_are_200_malformed_plans_and_no_two_are_alike() -> None:
    assert len({malformed.text for malformed in MALFORMED}) == len(MALFORMED) >= 200


def test_that_the_plan_they_are_made_from_is_good() -> None:
    assert len(planfile.parse(GOOD.encode()).nodes) == 3


@pytest.mark.parametrize("malformed", MALFORMED, ids=lambda m: f"{m.path}:{m.new.strip()[:40]}")
def test_that_an_error_is_one_sentence_with_key_path_and_line(malformed: Malformed) -> None:
    message = error_of(malformed.text)
    form = re.fullmatch(r"plan\.yaml:(\d+): (?:(\S.*?): )?expected .+, found .+", message)
    assert form, message
    assert "\n" not in message
    assert (form[2] or "") == malformed.path, message
    assert int(form[1]) == wrong_line(malformed), message
    for word in malformed.words:
        assert word in message


@pytest.mark.parametrize("malformed", MALFORMED[::10], ids=lambda m: m.new.strip()[:40])
def test_that_nothing_is_written_and_the_exit_status_is_2(
    malformed: Malformed, tmp_path: Path
) -> None:
    done = generate(malformed.text, tmp_path)
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["plan.yaml"]


def test_that_a_plan_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["config", "generate", str(tmp_path / "no"), "-o", "/nowhere"])
    assert done.exit_code == 2
    assert "No such file" in done.stderr


@pytest.mark.parametrize(
    "text",
    ["\xff\xfe".encode("latin-1"), b"a: \x00", b"[" * 3000, b"a: &x {<<: *x}", b"a: &x [*x]"],
    ids=["not UTF-8", "control characters", "deep nesting", "merged into itself", "inside itself"],
)
def test_that_a_hostile_document_is_an_error_with_a_line(text: bytes) -> None:
    with pytest.raises(PlanError, match=r"^plan\.yaml:1: .*expected"):
        planfile.parse(text)
