"""The RPM packages for the family of EL9, as rpm reads them. They are not installed anywhere."""

import subprocess
from pathlib import Path

import pytest

from gres import release
from pysched import VERSION
from tests.packaging.making import ROOT, make

SPEC = ROOT / "packaging" / "rpm" / "slurm-vgpu.spec"
# What each package is there for; `covered` with its mode.
CONTENTS = {
    "plugins": {"/usr/lib64/slurm-vgpu/gres_vgpu.so", "/usr/lib64/slurm-vgpu/spank_vgpu.so"},
    "node": {
        "/usr/lib64/slurm-vgpu/libvgpu.so",
        "/usr/sbin/vgpud",
        "/usr/bin/vgpu-agent",
        "/usr/share/slurm-vgpu/covered",
        "/usr/share/slurm-vgpu/slots/0",
        "/usr/share/slurm-vgpu/slots/1023",
        "/usr/lib/systemd/system/vgpud.service",
        "/usr/lib/systemd/system/vgpu-agent.service",
        "/usr/lib/tmpfiles.d/slurm-vgpu.conf",
        "/usr/share/man/man8/vgpud.8.gz",
    },
    "controller": {
        "/usr/bin/vgpu-select",
        "/usr/share/slurm-vgpu/job_submit_vgpu.lua",
        "/usr/lib/systemd/system/vgpu-select.service",
        "/usr/share/man/man8/vgpu-select.8.gz",
    },
    "tools": {
        "/usr/bin/vgpu",
        "/usr/lib/slurm-vgpu/python/pysched/cli/main.py",
        "/usr/lib/slurm-vgpu/python/gres/templates/gres.conf.j2",
        "/usr/lib/slurm-vgpu/python/networkx/__init__.py",
        "/usr/share/man/man1/vgpu.1.gz",
        "/usr/share/man/man5/vgpu.conf.5.gz",
        "/usr/share/bash-completion/completions/vgpu",
    },
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    subprocess.run(
        [ROOT / "packaging" / "apt.sh", "rpm", "rpm2cpio", "rpmlint", "cpio"], check=True
    )
    folder = tmp_path_factory.mktemp("rpm")
    make("rpm", f"RPM_DIR={folder}")
    return {path.name.split("-")[2]: path for path in folder.glob("*.rpm")}


def query(package: Path, *words: str) -> list[str]:
    done = subprocess.run(
        ["rpm", "--query", "--package", *words, package], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_that_each_part_has_its_files_and_no_other_has_them(packages: dict[str, Path]) -> None:
    assert packages.keys() == CONTENTS.keys()
    files = {name: set(query(path, "--list")) for name, path in packages.items()}
    for name, wanted in CONTENTS.items():
        assert wanted <= files[name]
        for other in files.keys() - {name}:
            assert not wanted & files[other]


def test_that_a_plugin_comes_with_exactly_its_slurm(packages: dict[str, Path]) -> None:
    version = release.installed_version()
    assert f"slurm = {version}" in query(packages["plugins"], "--requires")
    node = query(packages["node"], "--requires")
    assert f"slurm-slurmd = {version}" in node
    assert f"slurm-vgpu-plugins(x86-64) = {VERSION}-1.el9" in node


def test_that_programs_name_the_python_of_el9(packages: dict[str, Path]) -> None:
    assert "/usr/bin/python3.11" in query(packages["tools"], "--requires")
    provided = query(packages["tools"], "--provides")
    for name in ("click", "jinja2", "markupsafe", "networkx", "nvidia-ml-py", "python-hostlist"):
        assert any(line.startswith(f"bundled(python3dist({name})) = ") for line in provided)


def test_that_options_are_configuration_and_covered_is_closed(packages: dict[str, Path]) -> None:
    flags = "[%{FILENAMES} %{FILEMODES:octal} %{FILEFLAGS:fflags}\\n]"
    node = {line.split()[0]: line.split()[1:] for line in query(packages["node"], "--qf", flags)}
    assert node["/etc/sysconfig/vgpud"] == ["100644", "cn"]  # config, noreplace
    assert node["/etc/sysconfig/vgpu-agent"] == ["100644", "cn"]
    assert node["/etc/ld.so.preload"][1] == "g"  # not in the package, but known to rpm
    assert node["/usr/share/slurm-vgpu/covered"][0] == "100000"
    unit = extracted(packages["node"], "./usr/lib/systemd/system/vgpud.service")
    assert "EnvironmentFile=-/etc/sysconfig/vgpud\n" in unit


def extracted(package: Path, name: str) -> str:
    archive = subprocess.run(["rpm2cpio", package], capture_output=True, check=True).stdout
    done = subprocess.run(
        ["cpio", "--quiet", "--extract", "--to-stdout", name],
        input=archive,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode()


def scriptlet(package: Path, name: str) -> str:
    """What rpm runs: the text of `%post` and so on."""
    return "\n".join(query(package, "--qf", f"%{{{name}}}"))


def run(script: str, action: int, root: Path) -> list[str]:
    """Run a scriptlet with the paths it names below a root. Returns the systemctl commands."""
    programs = root / "programs"
    programs.mkdir(exist_ok=True)
    said = root / "said"
    said.write_text("")
    for name in ("systemctl", "systemd-tmpfiles"):
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{said}\n')
        (programs / name).chmod(0o755)
    for folder in ("/etc", "/run"):
        (root / folder[1:]).mkdir(exist_ok=True)
        script = script.replace(f" {folder}/", f" {root}{folder}/")
    subprocess.run(
        ["sh", "-e", "-c", script, "scriptlet", str(action)],
        env={"PATH": f"{programs}:/usr/bin:/bin"},
        check=True,
    )
    return said.read_text().splitlines()


def test_that_installing_starts_and_enables_nothing(
    packages: dict[str, Path], tmp_path: Path
) -> None:
    said = run(scriptlet(packages["node"], "POSTIN"), 1, tmp_path)
    assert said == ["systemctl daemon-reload", "systemd-tmpfiles --create slurm-vgpu.conf"]
    assert (tmp_path / "etc/ld.so.preload").read_bytes() == b""
    (tmp_path / "etc/ld.so.preload").write_text("a site's line\n")
    run(scriptlet(packages["node"], "POSTIN"), 2, tmp_path)
    assert (tmp_path / "etc/ld.so.preload").read_text() == "a site's line\n"


def test_that_an_upgrade_restarts_only_what_runs(packages: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "run" / "vgpu").mkdir(parents=True)
    assert run(scriptlet(packages["node"], "PREUN"), 1, tmp_path) == []
    said = run(scriptlet(packages["node"], "POSTUN"), 1, tmp_path)
    assert said[1:] == ["systemctl try-restart vgpud.service vgpu-agent.service"]
    assert (tmp_path / "run" / "vgpu").exists()  # what vgpud takes up again


def test_that_removal_leaves_nothing(packages: dict[str, Path], tmp_path: Path) -> None:
    run(scriptlet(packages["node"], "POSTIN"), 1, tmp_path)
    (tmp_path / "run" / "vgpu").mkdir()
    said = run(scriptlet(packages["node"], "PREUN"), 0, tmp_path)
    assert said == ["systemctl --no-reload disable --now vgpud.service vgpu-agent.service"]
    run(scriptlet(packages["node"], "POSTUN"), 0, tmp_path)
    assert list((tmp_path / "run").iterdir()) == []
    assert list((tmp_path / "etc").iterdir()) == []


def test_that_rpmlint_has_nothing_to_say(packages: dict[str, Path]) -> None:
    config = ROOT / "packaging" / "rpm" / "rpmlint.toml"
    done = subprocess.run(
        ["rpmlint", "--strict", "--config", config, *packages.values(), SPEC],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " 0 errors, 0 warnings" in done.stdout
