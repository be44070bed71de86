"""Runs every C unit test program. Each prints the claims that are not true."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "tests/unit/c").glob("test_*.c"))


@pytest.fixture(scope="session")
def programs() -> Path:
    subprocess.run(["make", "-s", "build-unit-tests"], cwd=ROOT, check=True)
    return ROOT / "build/tests/unit"


def run(program: Path) -> None:
    done = subprocess.run([program], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_every_claim_is_true(programs: Path, source: Path) -> None:
    run(programs / source.stem)


def test_every_claim_of_a_long_calculation_is_true(programs: Path) -> None:
    for program in sorted(programs.glob("*-plain")):
        run(program)


def test_every_claim_is_true_under_the_thread_sanitizer(programs: Path) -> None:
    for program in sorted(programs.glob("*-threads")):
        run(program)
