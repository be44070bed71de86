"""The fuzzers find nothing among their seeds and in a few seconds beyond; `make fuzz` goes on."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("target", ["conf", "messages"])
def test_nothing_that_arrives_breaks_the_parser(target: str, tmp_path: Path) -> None:
    subprocess.run(["make", "-s", "build-fuzz"], cwd=ROOT, check=True, timeout=280)
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    done = subprocess.run(
        [
            ROOT / "build/fuzz" / f"fuzz_{target}",
            "-max_total_time=3",
            f"-artifact_prefix={tmp_path}/",
            corpus,
            ROOT / "tests/fuzz/seeds" / target,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(corpus.iterdir())
