"""`make install` and `make uninstall`: what is there afterwards."""

from pathlib import Path

from tests.packaging.making import make

BUILD_NOTHING = "ALL="  # install what is built


def test_that_uninstall_leaves_an_empty_tree(tmp_path: Path) -> None:
    make("install", BUILD_NOTHING, f"DESTDIR={tmp_path}")
    assert (tmp_path / "usr/sbin/vgpud").exists()
    make("uninstall", BUILD_NOTHING, f"DESTDIR={tmp_path}")
    assert list(tmp_path.iterdir()) == []


def test_that_uninstall_leaves_an_empty_tree_wherever_it_was(tmp_path: Path) -> None:
    variables = ("PREFIX=/opt/vgpu", "SYSCONFDIR=/opt/etc", "LIBDIR=/opt/lib64")
    make("install", BUILD_NOTHING, f"DESTDIR={tmp_path}", *variables)
    assert (tmp_path / "opt/vgpu/sbin/vgpud").exists()
    make("uninstall", BUILD_NOTHING, f"DESTDIR={tmp_path}", *variables)
    assert list(tmp_path.iterdir()) == []


def test_that_what_is_the_sites_stays(tmp_path: Path) -> None:
    sites = [tmp_path / name for name in ("usr/share/zsh/site-functions", "usr/lib/systemd", "etc")]
    for folder in sites:
        folder.mkdir(parents=True)
    preload = tmp_path / "etc/ld.so.preload"
    preload.write_text("/usr/lib/sites.so\n")
    make("install", BUILD_NOTHING, f"DESTDIR={tmp_path}")
    make("install", BUILD_NOTHING, f"DESTDIR={tmp_path}")  # an update
    note = tmp_path / "usr/share/man/man1/sites.1"  # came later, in a folder that we made
    note.touch()
    make("uninstall", BUILD_NOTHING, f"DESTDIR={tmp_path}")
    left = {
        path for path in tmp_path.rglob("*") if not any(path.iterdir() if path.is_dir() else ())
    }
    assert left == {*sites[:2], preload, note}


def test_that_uninstall_of_nothing_removes_nothing(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    make("uninstall", BUILD_NOTHING, f"DESTDIR={tmp_path}")
    assert (tmp_path / "usr/bin").is_dir()
