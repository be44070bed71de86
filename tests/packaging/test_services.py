"""The packages on a host that its own systemd has started: units, their hardening, the journal.

One host is controller and node. Everything is real but the GPUs, which are simulated.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.booted import Booted, booted
from tests.packaging.host import clean_host
from tests.packaging.making import ROOT, make

pytestmark = pytest.mark.soak
MACHINE = ROOT / "tests" / "gpusim" / "machines" / "a100-pcie-4.machine"
PLAN = """\
version: 1
cards:
  a100: {memory: 40GiB, sms: 108}
types:
  quarter: {memory: 9GiB, sms: 27}
cluster: {submit_bridge: true}
nodes:
  - names: n1
    nvlink: {0-1: 12, 2-3: 12}
    gpus: [{gpu: 0-3, card: a100, vgpus: {quarter: 4}}]
"""
SLURM = """\
ClusterName=one
SlurmctldHost=n1
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SelectType=select/cons_tres
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
NodeName=n1 Gres=vgpu:quarter:16 Feature=vgpu-nvlink2
PartitionName=main Nodes=ALL Default=YES
include slurm-vgpu.conf
"""
# The simulated driver keeps its state in a file, which the real one does not.
DROP_IN = "[Service]\nReadWritePaths=/run/gpusim\n"
START = """\
mkdir -p /run/gpusim
cp /root/machine /run/gpusim/machine
touch /run/gpusim/state
chmod 666 /run/gpusim/state
for name in nvidiactl nvidia-uvm nvidia0 nvidia1 nvidia2 nvidia3; do
    touch /dev/$name
    chmod 666 /dev/$name
done
systemctl restart munge
systemctl enable --now vgpud vgpu-agent vgpu-select
systemctl restart slurmctld slurmd
"""
UNITS = ("vgpud", "vgpu-agent", "vgpu-select", "slurmctld", "slurmd", "munge")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Booted]:
    folder = tmp_path_factory.mktemp("deb")
    make("deb", "SUITE=bookworm", f"DEB_DIR={folder}")
    with clean_host("bookworm") as clean:
        for path in (folder / "bookworm").glob("slurm-vgpu-*.deb"):
            if "dbgsym" not in path.name:
                shutil.copy(path, clean.path("/root"))
        clean.check("apt-get update && apt-get install /root/*.deb && useradd -m alice")
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            shutil.copy(ROOT / "build/gpusim" / name, clean.path("/usr/lib/x86_64-linux-gnu"))
        configure(clean.path("/"))
        clean.check("vgpu config generate /etc/slurm/plan.yaml -o /etc/slurm")
        clean.check("cp /etc/slurm/vgpu-hints/job_submit.lua /etc/slurm/")
        with booted(clean.path("/")) as host:
            host.check(START)
            host.eventually("sinfo -h -o %T | grep idle")
            yield host


def configure(root: Path) -> None:
    (root / "etc/slurm/plan.yaml").write_text(PLAN)
    (root / "etc/slurm/slurm.conf").write_text(SLURM)
    # Where both versions are mounted slurmd refuses the second one; neither is used here.
    (root / "etc/slurm/cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    (root / "etc/hostname").write_text("n1\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n192.0.2.1 n1\n")
    shutil.copy(MACHINE, root / "root/machine")
    for unit in ("vgpud", "vgpu-agent"):
        folder = root / f"etc/systemd/system/{unit}.service.d"
        folder.mkdir(parents=True)
        (folder / "simulated.conf").write_text(DROP_IN)


def test_that_all_services_run_behind_their_walls(host: Booted) -> None:
    assert host.check(f"systemctl is-active {' '.join(UNITS)}").split() == ["active"] * len(UNITS)
    for unit in ("vgpud", "vgpu-agent", "vgpu-select"):
        pid = host.check(f"systemctl show -P MainPID {unit}").strip()
        assert "NoNewPrivs:\t1" in host.check(f"cat /proc/{pid}/status")
        assert "Seccomp:\t2" in host.check(f"cat /proc/{pid}/status")


def test_that_jobs_run_and_are_found_in_the_journal(host: Booted) -> None:
    printed = host.check("srun --gres=vgpu:2 printenv CUDA_VISIBLE_DEVICES", user="alice")
    assert printed.count("GPU-") == 2
    (line,) = host.eventually("journalctl -o json SLURM_JOB_ID=1 | grep bound").splitlines()[:1]
    entry = json.loads(line)
    assert entry["_SYSTEMD_UNIT"] == "vgpud.service"
    assert entry["SLURM_STEP_ID"] == "0"


def test_that_a_bad_request_is_refused_at_submit(host: Booted) -> None:
    done = host.run("srun --gres=vgpu:17 true", user="alice")
    assert done.returncode != 0
    assert "vgpu" in done.stderr


def test_that_the_agents_report_reaches_slurm(host: Booted) -> None:
    host.eventually("scontrol show node n1 | grep 'Extra=.*vgpu{'")


@pytest.mark.parametrize("unit", ["vgpud", "vgpu-agent", "vgpu-select"])
def test_that_a_killed_service_comes_back(host: Booted, unit: str) -> None:
    before = host.check(f"systemctl show -P MainPID {unit}").strip()
    host.check(f"kill -9 {before}")
    host.eventually(
        f"systemctl is-active {unit} && test $(systemctl show -P MainPID {unit}) != {before}"
    )
    assert host.check("srun --gres=vgpu:1 echo ran", user="alice") == "ran\n"


def test_that_a_vgpud_that_hangs_is_started_again(host: Booted) -> None:
    restarts = "$(systemctl show -P NRestarts vgpud)"
    before = int(host.check(f"echo {restarts}"))
    host.check("kill -STOP $(systemctl show -P MainPID vgpud)")
    host.eventually(f"test {restarts} -gt {before} && systemctl is-active vgpud", seconds=90)
    assert host.check("srun --gres=vgpu:1 echo ran", user="alice") == "ran\n"


def test_that_a_service_which_ends_at_once_again_and_again_is_not_given_up(host: Booted) -> None:
    for _ in range(8):
        host.check("kill -9 $(systemctl show -P MainPID vgpud)")
        host.eventually("systemctl is-active vgpud")
    assert host.check("srun --gres=vgpu:1 echo ran", user="alice") == "ran\n"
