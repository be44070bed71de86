"""vgpu policy set: what it asks of vgpud, and what it refuses by itself."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from pysched.cli.main import main
from pysched.vgpud_client import Vgpud


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, dict[str, object]]]:
    calls: list[tuple[int, dict[str, object]]] = []
    monkeypatch.setattr(Vgpud, "set_policy", lambda _self, job, **rest: calls.append((job, rest)))
    return calls


def test_that_only_what_is_named_is_changed(asked: list[tuple[int, dict[str, object]]]) -> None:
    done = CliRunner().invoke(main, ["policy", "set", "7", "--slice", "20ms", "--max-sms", "54"])
    assert done.exit_code == 0, done.output
    unchanged = {"workload": "", "burst_class": ""}
    assert asked == [(7, {"slice_us": 20000, "max_sms": 54, **unchanged})]


@pytest.mark.parametrize("wrong", ["3ms", "1001ms", "10", "10s", "-5ms", "5.5ms"])
def test_that_a_wrong_slice_is_one_sentence(
    asked: list[tuple[int, dict[str, object]]], wrong: str
) -> None:
    done = CliRunner().invoke(main, ["policy", "set", "7", f"--slice={wrong}"])
    assert (done.exit_code, done.stdout, asked) == (2, "", [])
    assert done.stderr == f"vgpu: --slice={wrong}: 5ms to 1000ms is expected, as 10ms\n"


def test_that_nothing_to_set_and_no_vgpud_are_sentences(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["policy", "set", "7"])
    assert done.exit_code == 2
    assert done.stderr.startswith("vgpu: nothing to set")
    done = CliRunner().invoke(
        main, ["policy", "set", "7", "--slice=9ms", "--runtime-dir", str(tmp_path)]
    )
    assert done.exit_code == 2
    assert done.stderr.startswith("vgpu: vgpud does not answer at ")
