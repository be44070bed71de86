"""The systemd units, as systemd itself reads them."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.packaging.making import make

UNITS = Path("usr/lib/systemd/system")
# As systemd measures it, from 0 (sealed off) to 10.
MOST_EXPOSED = {"vgpud": 2.5, "vgpu-agent": 2.4, "vgpu-select": 1.6}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    make("install", "ALL=", f"DESTDIR={root}")
    return root


def settings(installed: Path, name: str) -> dict[str, str]:
    lines = (installed / UNITS / f"{name}.service").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")


@pytest.mark.parametrize("name", MOST_EXPOSED)
def test_that_systemd_takes_the_unit(name: str, installed: Path) -> None:
    # The programs are not where the unit says, but in this root.
    unit = installed / f"{name}.service"
    text = (installed / UNITS / unit.name).read_text()
    unit.write_text(text.replace("ExecStart=/usr", f"ExecStart={installed}/usr"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if unit.name in line or name in line]
    assert complaints == []


@pytest.mark.parametrize("name", MOST_EXPOSED)
def test_that_exposure_stays_below_its_bound(name: str, installed: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--json=short", "--no-pager",
         f"--threshold={int(MOST_EXPOSED[name] * 10)}", str(installed / UNITS / f"{name}.service")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    exposed = [
        (row["name"], row["exposure"]) for row in json.loads(done.stdout) if row["set"] is False
    ]
    assert done.returncode == 0, exposed


def test_that_vgpus_are_there_before_slurm(installed: Path) -> None:
    assert "slurmd.service" in settings(installed, "vgpud")["Before"]
    agent = settings(installed, "vgpu-agent")
    assert "slurmd.service" in agent["Before"]
    assert "vgpud.service" in agent["After"]
    assert "slurmctld.service" in settings(installed, "vgpu-select")["Before"]


@pytest.mark.parametrize("name", MOST_EXPOSED)
def test_that_a_service_is_watched_and_started_again(name: str, installed: Path) -> None:
    unit = settings(installed, name)
    assert unit["Type"] == "notify"
    assert unit["Restart"] == "always"
    assert unit["StartLimitIntervalSec"] == "0"
    assert int(unit["WatchdogSec"]) > 0
    assert unit["EnvironmentFile"] == f"-/etc/default/{name}"
    assert (installed / f"etc/default/{name}").exists()


@pytest.mark.parametrize("name", ["vgpud", "vgpu-agent"])
def test_that_a_node_service_waits_for_its_configuration(name: str, installed: Path) -> None:
    assert settings(installed, name)["ConditionPathExists"] == "/etc/slurm/vgpu.conf"
