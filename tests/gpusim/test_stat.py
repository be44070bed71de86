"""gpusim-stat, and the machine files that it reads: what they say when something is wrong."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.gpusim.inside import shared
from tests.gpusim.test_processes import START
from tests.sandbox.gpus import MACHINES
from tests.sandbox.paths import BUILD

STAT = BUILD / "gpusim" / "gpusim-stat"
GPU = 'gpu=0 name="A card" memory=1GiB sms=8\n'


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([STAT, *arguments], capture_output=True, text=True, check=False)


def folder_of(tmp_path: Path, machine: str) -> Path:
    (tmp_path / "machine").write_text(machine)
    return tmp_path


@pytest.mark.parametrize("machine", sorted(MACHINES.glob("*.machine")), ids=lambda path: path.stem)
def test_every_machine_that_comes_with_it_can_be_read(machine: Path, tmp_path: Path) -> None:
    done = run("--json", "--dir", folder_of(tmp_path, machine.read_text()))
    assert done.returncode == 0, done.stderr
    stat = json.loads(done.stdout)
    assert stat["simulated"] is True
    assert stat["machine"] == machine.stem
    uuids = {gpu["uuid"] for gpu in stat["gpus"]}
    assert len(uuids) == len(stat["gpus"]) > 0


def test_a_machine_file_that_is_wrong_is_refused_in_a_sentence_that_names_the_line(
    tmp_path: Path,
) -> None:
    done = run("--dir", folder_of(tmp_path, "machine=m\n" + GPU.replace("1GiB", "1GB")))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"gpusim-stat: {tmp_path}/machine:2: memory=1GB: "
        "a size is a whole number with KiB, MiB, GiB or TiB, as in 40GiB\n"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--nonsense"], "unknown option"),
        (["more"], 'unexpected "more"'),
        (["--watch-max", "12;13"], "process ids are needed"),
        (["--watch-max", "1", "--sample", "0"], "from 1 to 100000"),
        (["--watch-max", "1", "--seconds", "long"], "above 0"),
        (["--dir", "/nonexistent"], "/nonexistent/state"),
    ],
)
def test_wrong_arguments_are_one_sentence_and_exit_code_2(
    arguments: list[str], says: str, tmp_path: Path
) -> None:
    place = [] if "--dir" in arguments else ["--dir", folder_of(tmp_path, "machine=m\n" + GPU)]
    done = run(*place, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("gpusim-stat: ")
    assert says in done.stderr


def test_the_table_shows_what_each_process_holds(small: str) -> None:
    code = (
        START
        + """
process = start("hold", "linear", 100 * MIB, 1)
answer = subprocess.check_output([STAT], text=True)
end(process)
"""
    )
    text = shared(code, machine=small)
    assert text.startswith("Simulated machine small\n")
    (line,) = [line for line in text.splitlines() if "hold" in line]
    assert line.split()[2:4] == ["101MiB", "101MiB"]
    assert "linear=100MiB context=1MiB" in line


def test_watching_finds_the_most_that_the_named_processes_held_together(small: str) -> None:
    code = (
        START
        + """
a, b, c = (start("hold", "linear", size * MIB, 1) for size in (100, 200, 400))
both = f"{a.pid},{b.pid}"
answer = [stat("--watch-max", pids, "--seconds", "0.1")["max_bytes"] for pids in (both, "all")]
end(a, b, c)
"""
    )
    mib = 1 << 20
    assert shared(code, machine=small) == [[302 * mib, 0], [703 * mib, 0]]
