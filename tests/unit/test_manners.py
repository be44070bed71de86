"""The vgpu command as a whole: help, man pages, completion."""

import re
import runpy
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pysched import VERSION
from pysched.cli import progress
from pysched.cli.main import main

ROOT = Path(__file__).parents[2]
MAN: dict[str, Any] = runpy.run_path(str(ROOT / "packaging" / "man.py"))
COMPLETION: dict[str, Any] = runpy.run_path(str(ROOT / "packaging" / "completion.py"))
COMMANDS: dict[tuple[str, ...], click.Command] = dict(MAN["commands"](("vgpu",), main))
LEAVES = {words: c for words, c in COMMANDS.items() if not isinstance(c, click.Group)}


def name(words: object) -> str:
    return "-".join(words) if isinstance(words, tuple) else ""


@pytest.mark.parametrize("words", COMMANDS, ids=name)
def test_that_every_command_has_help(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*words[1:], "--help"])
    assert (done.exit_code, done.stdout.startswith("Usage: ")) == (0, True)


@pytest.mark.parametrize("words", LEAVES, ids=name)
def test_that_every_command_shows_examples_and_its_exit_status(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*words[1:], "--help"])
    assert re.search(rf"Examples:\n +{' '.join(words)}", done.stdout)
    assert "Exit status: 0 " in done.stdout


@pytest.mark.parametrize("words", LEAVES, ids=name)
def test_that_every_option_is_explained(words: tuple[str, ...]) -> None:
    for parameter in LEAVES[words].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def test_that_help_loads_no_command() -> None:
    program = (
        "import sys; from pysched.cli.main import main; main(['--help'], standalone_mode=False); "
        "print(sorted(name for name in sys.modules if name.startswith(('gres', 'pysched.cli.'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "['pysched.cli.main']"


def test_that_an_unknown_command_is_refused() -> None:
    done = CliRunner().invoke(main, ["confg"])
    assert (done.exit_code, "No such command 'confg'" in done.stderr) == (2, True)


def test_that_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
    assert CliRunner().invoke(main, ["--version"]).stdout == f"vgpu, version {VERSION}\n"


# --- progress -------------------------------------------------------------------------------------


def work_at(monkeypatch: pytest.MonkeyPatch, terminal: bool, seconds: float) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    with progress.working("counting"):
        time.sleep(seconds)


def test_that_long_work_is_told_at_a_terminal_and_the_line_cleared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work_at(monkeypatch, terminal=True, seconds=0.5)
    said = capsys.readouterr().err
    assert "counting ..." in said
    assert said.endswith("\r")


@pytest.mark.parametrize(("terminal", "seconds"), [(False, 0.5), (True, 0.0)])
def test_that_nothing_is_told_without_need(
    terminal: bool,
    seconds: float,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    work_at(monkeypatch, terminal, seconds)
    assert capsys.readouterr().err == ""


# --- man pages ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("man")
    MAN["write"](folder, str(ROOT / "build" / "vgpud"))
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_that_every_command_and_format_has_a_page(pages: dict[str, str]) -> None:
    expected = {f"{'-'.join(words)}.1" for words in COMMANDS} | {"vgpu.conf.5", "vgpu-plan.5"}
    expected |= {"vgpud.8", "vgpu-agent.8", "vgpu-select.8"}
    assert set(pages) == expected


@pytest.mark.parametrize("words", LEAVES, ids=name)
def test_that_a_page_has_every_option(words: tuple[str, ...], pages: dict[str, str]) -> None:
    page = pages[f"{'-'.join(words)}.1"].replace("\\-", "-")
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS"):
        assert f".SH {section}\n" in page
    for parameter in LEAVES[words].params:
        if isinstance(parameter, click.Option):
            assert parameter.opts[0] in page


def test_that_no_text_is_taken_for_a_request(pages: dict[str, str]) -> None:
    requests = {"TH", "SH", "PP", "TP", "IP", "B", "I", "BR", "RS", "RE", "nf", "fi"}
    for page in pages.values():
        used = {line[1:].split(" ")[0] for line in page.splitlines() if line.startswith(".")}
        assert used <= requests


def test_that_a_page_of_a_format_has_its_keys(pages: dict[str, str]) -> None:
    assert "\\fBaccounting_tres\\fR" in pages["vgpu-plan.5"]
    assert "\\fBBackstop=\\fR" in pages["vgpu.conf.5"]


# --- completion -----------------------------------------------------------------------------------


def test_that_bash_completes_commands(tmp_path: Path) -> None:
    COMPLETION["write"](tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"vgpu", "_vgpu", "vgpu.fish"}
    program = tmp_path / "bin" / "vgpu"
    program.parent.mkdir()
    start = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from pysched.cli.main import main; main()"
    )
    program.write_text(f"#!{sys.executable}\n{start}\n")
    program.chmod(0o755)
    script = (
        f"source {tmp_path}/vgpu; COMP_WORDS=(vgpu config gen); COMP_CWORD=2; "
        'COMP_LINE="vgpu config gen"; COMP_POINT=15; _vgpu_completion vgpu; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True, text=True, check=True, env={"PATH": f"{program.parent}:/usr/bin:/bin"},
    )  # fmt: skip
    assert done.stdout.strip() == "generate", done.stderr
