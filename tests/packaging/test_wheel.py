"""The Python part as a wheel and an sdist, in a virtual environment of its own."""

import subprocess
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from pysched import VERSION
from tests.packaging.making import ROOT, make


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    make("wheel", f"DIST={folder}")
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel and what it brings."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run(["/usr/bin/python3", "-m", "venv", str(folder)], check=True)
    pip(folder, str(wheel))
    return folder


def pip(venv: Path, *words: str) -> None:
    command = [str(venv / "bin" / "pip"), "install", "--quiet", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def vgpu(venv: Path, *words: str, cwd: Path) -> str:
    done = subprocess.run(
        [str(venv / "bin" / "vgpu"), *words], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_that_the_wheel_works_in_a_clean_environment(venv: Path, tmp_path: Path) -> None:
    assert vgpu(venv, "--version", cwd=tmp_path).split() == ["vgpu,", "version", VERSION]
    plan = ROOT / "tests" / "demo" / "plan.yaml"
    vgpu(venv, "config", "generate", str(plan), "-o", "etc", "--slurm", "22.05", cwd=tmp_path)
    assert "Name=vgpu" in (tmp_path / "etc" / "gres.conf").read_text()
    topology = ROOT / "tests" / "data" / "topo" / "dgx1_v100_4nic.txt"
    assert "NVLink" in vgpu(venv, "topo", "--file", str(topology), cwd=tmp_path)
    assert "GPU" in vgpu(venv, "place", "--file", str(topology), "-n", "4", cwd=tmp_path)


def test_that_the_sdist_works_as_the_wheel(dist: Path, venv: Path, tmp_path: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    pip(venv, "--no-deps", "--force-reinstall", str(sdist))
    plan = ROOT / "tests" / "demo" / "plan.yaml"
    vgpu(venv, "config", "generate", str(plan), "-o", "etc", "--slurm", "24.11", cwd=tmp_path)
    assert "Name=vgpu" in (tmp_path / "etc" / "gres.conf").read_text()


def test_that_the_wheel_has_all_files_of_the_packages(wheel: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "pysched", "gres"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert inside == set(tracked.stdout.split())


def test_that_the_services_are_commands_too(venv: Path) -> None:
    for name in ("vgpu-agent", "vgpu-select"):
        done = subprocess.run([str(venv / "bin" / name), "--help"], capture_output=True, check=True)
        assert name.encode() in done.stdout


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        return message_from_bytes(archive.read(name))


def test_that_pyslurm_comes_only_when_asked_for_and_for_its_own_release(wheel: Path) -> None:
    needs = metadata(wheel).get_all("Requires-Dist") or []
    (pyslurm,) = (need for need in needs if need.startswith("pyslurm"))
    assert pyslurm.replace(" ", "").replace("'", '"') in (
        'pyslurm<25.12,>=25.11;extra=="slurm"',
        'pyslurm>=25.11,<25.12;extra=="slurm"',
    )
