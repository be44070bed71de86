"""The Debian packages on a clean Debian: the guide, an upgrade, a purge, other Slurms."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import guide
from tests.cluster.running import RunningCluster
from tests.packaging.host import Host, clean_host
from tests.packaging.making import ROOT, make

NAMES = ("plugins", "tools", "node", "controller")
CONF, AGENT, PRELOAD = "/etc/default/vgpud", "/etc/default/vgpu-agent", "/etc/ld.so.preload"
SUITES = [
    "bookworm",
    pytest.param("trixie", marks=pytest.mark.soak),
]
# What apt and dpkg keep for themselves, and what is made of the libraries that are there.
KEPT = re.compile(r"/var/(log|cache|lib/(apt|dpkg))(/|$)|/etc/ld.so.cache")


@pytest.fixture(scope="module", params=SUITES)
def suite(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def packages(suite: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deb")
    make("deb", f"SUITE={suite}", f"DEB_DIR={folder}")
    return folder / suite


@pytest.fixture(scope="module")
def host(suite: str, packages: Path) -> Iterator[Host]:
    """A clean host that has the packages in a folder."""
    with clean_host(suite) as host:
        folder = host.path("/root/packages")
        folder.mkdir()
        for name in NAMES:
            (path,) = packages.glob(f"slurm-vgpu-{name}_*.deb")
            (folder / path.name).write_bytes(path.read_bytes())
        host.check("apt-get update")
        yield host


@pytest.fixture(scope="module")
def before(host: Host) -> dict[str, str]:
    return host.files()


@pytest.fixture(scope="module")
def installed(host: Host, before: dict[str, str]) -> Host:
    """As the guide says, for a node and a controller: here one host is both."""
    blocks = [block for block in guide.blocks() if block.where in guide.INSTALL]
    assert len(blocks) == len(guide.INSTALL)
    for block in blocks:
        host.check(block.commands, cwd="/root/packages")
    return host


def test_that_the_guide_leads_to_the_first_job(installed: Host) -> None:
    cluster = RunningCluster("--installed", "--plan", "none", enter=installed.copy.enter)
    try:
        guide.prepare(cluster)
        guide.assert_first_job(guide.follow(cluster))
        assert cluster.states() == {"n1": "idle", "n2": "idle"}
    finally:
        cluster.close()


def test_that_nothing_runs_before_it_is_enabled(installed: Host) -> None:
    for unit in ("vgpud", "vgpu-agent", "vgpu-select"):
        assert installed.run(f"systemctl is-enabled {unit}").stdout == "disabled\n"
    assert installed.path("/etc/ld.so.preload").read_bytes() == b""
    assert installed.check("stat -c %a /usr/share/slurm-vgpu/covered") == "0\n"
    assert installed.check("stat -c %a /run/vgpu /run/vgpu-step").split() == ["755", "755"]


@pytest.mark.parametrize(("step", "fits"), [("revision", True), ("micro", False)])
def test_that_apt_keeps_plugins_and_slurm_together(installed: Host, step: str, fits: bool) -> None:
    version = installed.check("dpkg-query -W -f '${Version}' slurm-wlm-basic-plugins")
    major, minor, micro = version.partition("-")[0].split(".")
    new = f"{version}.1" if step == "revision" else f"{major}.{minor}.{int(micro) + 1}-1"
    packages = ["slurm-wlm-basic-plugins", "slurmd", "slurmctld", "slurm-client"]
    for name in packages:
        folder = f"/root/new/{name}/DEBIAN"
        installed.path(folder).mkdir(parents=True, exist_ok=True)
        installed.path(f"{folder}/control").write_text(
            f"Package: {name}\nVersion: {new}\nArchitecture: amd64\nMaintainer: t\nDescription: t\n"
        )
        installed.check(f"dpkg-deb -b /root/new/{name} /root/new/{name}.deb")
    done = installed.run("apt-get install --simulate --no-remove /root/new/*.deb")
    shutil.rmtree(installed.path("/root/new"))
    assert (done.returncode == 0) is fits, done.stdout + done.stderr


@pytest.fixture(scope="module")
def upgraded(installed: Host) -> Host:
    """Configured by an administrator, and then a higher version installed."""
    installed.path(CONF).write_text('VGPUD_OPTIONS="--conf /etc/slurm/vgpu.conf"\n')
    installed.path(PRELOAD).write_text("# the site's\n")
    installed.path("/etc/slurm/vgpu.conf").write_text("Version=1\n")
    installed.check("systemctl enable vgpud vgpu-select")
    for path in installed.path("/root/packages").glob("*.deb"):
        raise_version(installed, path.name)
    installed.check("apt-get install /root/packages/*.deb")
    return installed


def raise_version(host: Host, deb: str) -> None:
    """Make a package again with a higher version, and with another default for vgpu-agent."""
    host.check(
        f"""
        dpkg-deb -R {deb} new
        sed -i -E '/^(Version|Depends):/s/0\\.1\\.0-1/0.1.1-1/g' new/DEBIAN/control
        if [ -e new{AGENT} ]; then echo '# new' >>new{AGENT}; fi
        dpkg-deb -b new {deb}
        rm -r new
        """,
        cwd="/root/packages",
    )


def test_that_an_upgrade_keeps_what_was_configured(installed: Host, upgraded: Host) -> None:
    shown = "dpkg-query -W -f '${Package} ${Version} ${Status}\\n' 'slurm-vgpu-*'"
    for line in installed.check(shown).splitlines():
        assert re.search(r" 0\.1\.1-1\S+ install ok installed$", line)
    assert "--conf /etc/slurm/vgpu.conf" in upgraded.path(CONF).read_text()
    assert upgraded.path(AGENT).read_text().endswith("# new\n")  # nobody had changed it
    assert upgraded.path(PRELOAD).read_text() == "# the site's\n"
    assert upgraded.path("/etc/slurm/vgpu.conf").read_text() == "Version=1\n"
    assert upgraded.run("systemctl is-enabled vgpud vgpu-agent vgpu-select").stdout.split() == [
        "enabled", "disabled", "enabled"
    ]  # fmt: skip


def test_that_purge_leaves_nothing(before: dict[str, str], upgraded: Host) -> None:
    upgraded.check("apt purge 'slurm-vgpu-*' && apt-get autoremove --purge")
    assert upgraded.path(PRELOAD).read_text() == "# the site's\n"
    for path in (PRELOAD, "/etc/slurm/vgpu.conf"):  # what was not ours
        upgraded.path(path).unlink()
    after = upgraded.files()
    different = {
        path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
    }
    assert sorted(path for path in different if not KEPT.match(path)) == []
    assert upgraded.check("ls /run/vgpu /run/vgpu-step 2>&1 || true").count("cannot access") == 2


def test_that_purge_takes_an_empty_preload_file_away(host: Host, upgraded: Host) -> None:
    host.check("dpkg --force-depends --install /root/packages/slurm-vgpu-node_*.deb")
    assert host.path(PRELOAD).read_bytes() == b""
    host.check("dpkg --purge slurm-vgpu-node")
    assert not host.path(PRELOAD).exists()


def test_that_lintian_has_nothing_to_say(packages: Path, tmp_path: Path) -> None:
    subprocess.run([ROOT / "packaging" / "apt.sh", "lintian"], check=True)
    # Who builds packages for others gives his own address.
    suppressed = "bogus-mail-host,bogus-mail-host-in-debian-changelog"
    (changes,) = packages.glob("*.changes")
    done = subprocess.run(
        ["lintian", "--fail-on=error,warning", f"--suppress-tags={suppressed}", changes],
        capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
