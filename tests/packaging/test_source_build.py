"""Building for a Slurm that is not the distribution's: by prefix, and by pkg-config."""

import os
import re
import shutil
from pathlib import Path

import pytest

from gres import elf
from tests.packaging.making import ROOT, make


def slurm(folder: Path, version: str) -> Path:
    """A prefix with the headers of this machine, which say that they are of another version."""
    include = folder / "include"
    shutil.copytree("/usr/include/slurm", include / "slurm")
    major, minor, micro = map(int, version.split("."))
    header = include / "slurm" / "slurm_version.h"
    number = f"0x{major << 16 | minor << 8 | micro:06x}"
    text, changed = re.subn(
        r"(define SLURM_VERSION_NUMBER) \S+", rf"\1 {number}", header.read_text()
    )
    assert changed == 1
    header.write_text(text)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A place to build in, with nothing in it but what setup would make."""
    folder = tmp_path / "build"
    folder.mkdir()
    stamp = folder / ".setup"
    stamp.touch()
    return folder


def build(folder: Path, *variables: str) -> str | None:
    """Build the plugins there. Returns the version that gres_vgpu.so states."""
    make(*_words(folder), *variables, f"{folder}/gres_vgpu.so", f"{folder}/spank_vgpu.so")
    return elf.plugin_version(folder / "gres_vgpu.so")


def _words(folder: Path) -> tuple[str, ...]:
    return (f"B={folder}", f"VENV={ROOT / 'build' / 'venv'}", "-j2")


def test_that_a_prefix_is_built_for_and_another_one_after_it(folder: Path, tmp_path: Path) -> None:
    one, other = slurm(tmp_path / "one", "22.05.77"), slurm(tmp_path / "other", "23.11.10")
    assert build(folder, f"SLURM_PREFIX={one}") == "22.05.77"
    assert build(folder, f"SLURM_PREFIX={other}") == "23.11.10"


def test_that_pkg_config_finds_slurm(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = slurm(tmp_path / "slurm", "22.05.78")
    (prefix / "slurm.pc").write_text(
        f"Name: slurm\nDescription: Slurm\nVersion: 22.05.78\nCflags: -I{prefix}/include\n"
    )
    monkeypatch.setenv("PKG_CONFIG_PATH", str(prefix))
    assert build(folder) == "22.05.78"


@pytest.mark.parametrize("lacking", ["slurm.h", "slurm_version.h", "spank.h"])
def test_that_missing_headers_are_one_sentence(folder: Path, tmp_path: Path, lacking: str) -> None:
    prefix = slurm(tmp_path / "slurm", "22.05.79")
    (prefix / "include" / "slurm" / lacking).unlink()
    done = make(*_words(folder), f"SLURM_PREFIX={prefix}", f"{folder}/gres_vgpu.so", check=False)
    assert done.returncode != 0
    sentence = done.stderr.splitlines()[0]
    assert sentence.startswith(f"make: slurm/{lacking} is not in {prefix}/include: install Slurm's")
    assert "SLURM_PREFIX=/opt/slurm" in sentence
    assert not (folder / "gres_vgpu.so").exists()


def test_that_what_is_installed_knows_where_slurm_is(tmp_path: Path) -> None:
    make("install", "ALL=", f"DESTDIR={tmp_path}", "SLURM_PREFIX=/opt/slurm")
    assert "/opt/slurm/bin" in (tmp_path / "usr/bin/vgpu").read_text()
    installed = (tmp_path / "usr/lib/slurm-vgpu/python/pysched/install.json").read_text()
    assert '"slurm_plugindir": "/opt/slurm/lib/slurm"' in installed
    assert os.access(tmp_path / "usr/bin/vgpu", os.X_OK)
