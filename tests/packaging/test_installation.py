"""`make install` and `make uninstall`: what is there afterwards."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def make(target: str, destdir: Path, *variables: str) -> None:
    """Install what is built; a make that runs us is not to pass its own variables on."""
    env = {
        key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))
    }
    subprocess.run(
        ["make", "--silent", "-C", str(ROOT), target, "ALL=", f"DESTDIR={destdir}", *variables],
        env=env,
        check=True,
        capture_output=True,
    )


def test_that_uninstall_leaves_an_empty_tree(tmp_path: Path) -> None:
    make("install", tmp_path)
    assert (tmp_path / "usr/sbin/vgpud").exists()
    make("uninstall", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_that_uninstall_leaves_an_empty_tree_wherever_it_was(tmp_path: Path) -> None:
    variables = ("PREFIX=/opt/vgpu", "SYSCONFDIR=/opt/etc", "LIBDIR=/opt/lib64")
    make("install", tmp_path, *variables)
    assert (tmp_path / "opt/vgpu/sbin/vgpud").exists()
    make("uninstall", tmp_path, *variables)
    assert list(tmp_path.iterdir()) == []


def test_that_what_is_the_sites_stays(tmp_path: Path) -> None:
    sites = [tmp_path / name for name in ("usr/share/zsh/site-functions", "usr/lib/systemd", "etc")]
    for folder in sites:
        folder.mkdir(parents=True)
    preload = tmp_path / "etc/ld.so.preload"
    preload.write_text("/usr/lib/sites.so\n")
    make("install", tmp_path)
    make("install", tmp_path)  # an update
    note = tmp_path / "usr/share/man/man1/sites.1"  # came later, in a folder that we made
    note.touch()
    make("uninstall", tmp_path)
    left = {
        path for path in tmp_path.rglob("*") if not any(path.iterdir() if path.is_dir() else ())
    }
    assert left == {*sites[:2], preload, note}


def test_that_uninstall_of_nothing_removes_nothing(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    make("uninstall", tmp_path)
    assert (tmp_path / "usr/bin").is_dir()
