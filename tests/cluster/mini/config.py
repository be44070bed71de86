"""The configuration of a cluster: munge's key, slurm.conf, what is generated from a plan."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import hostlist

from tests.cluster.mini.paths import ETC_SLURM, RUN, SELECT_SOCKET, SLURM_CONF
from tests.sandbox.errors import SandboxError
from tests.sandbox.runner import HOSTNAME

FIRST_PORT = 17001
_FRAGMENT = ETC_SLURM / "slurm-vgpu.conf"
_PLUGSTACK = ETC_SLURM / "plugstack.conf.d" / "vgpu.conf"
_MOST_NODES = 64
_ACCOUNTING = re.compile(r"(?i)AccountingStorageTRES=|PartitionName=DEFAULT TRESBillingWeights=")

# What makes a small cluster quick. Everything can be replaced by --set KEY=VALUE.
_SLURM: Mapping[str, str] = {
    "ClusterName": "minicluster",
    "SlurmctldHost": HOSTNAME,
    "SlurmUser": "slurm",
    "AuthInfo": "cred_expire=5",
    "StateSaveLocation": "/var/spool/slurmctld",
    "SlurmdSpoolDir": "/var/spool/slurmd/%n",
    "SlurmctldPidFile": "/run/slurmctld.pid",
    "SlurmdPidFile": "/run/slurmd-%n.pid",
    "SlurmctldLogFile": f"{RUN}/controller/slurmctld.log",
    "SlurmdLogFile": f"{RUN}/%n/slurmd.log",
    "SlurmdParameters": "config_overrides",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core",
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "LaunchParameters": "use_interactive_step",
    "MpiDefault": "none",
    "MailProg": "/bin/true",
    "SchedulerParameters": "sched_interval=1,bf_interval=1,batch_sched_delay=0",
    "KillWait": "2",
    "ReturnToService": "2",
}
# What a site without a script of its own has.
_JOB_SUBMIT = """\
local vgpu = dofile("/usr/share/slurm-vgpu/job_submit_vgpu.lua")

function slurm_job_submit(job_desc, part_list, submit_uid)
    return vgpu.submit(job_desc, part_list, submit_uid)
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return vgpu.modify(job_desc, job_rec, part_list, modify_uid)
end
"""
_PLAIN_NODE = "Sockets=2 CoresPerSocket=16 ThreadsPerCore=1 RealMemory=64000"


def write_munge_key() -> None:
    for folder in ("/etc/munge", "/run/munge", "/var/lib/munge", "/var/log/munge"):
        Path(folder).mkdir(exist_ok=True, mode=0o755)
        shutil.chown(folder, "munge", "munge")
    key = Path("/etc/munge/munge.key")
    key.touch(0o600)
    key.write_bytes(os.urandom(128))
    shutil.chown(key, "munge", "munge")


def write_slurm_conf(settings: Mapping[str, str], node_lines: Sequence[str]) -> None:
    """slurm.conf: our settings or the given ones, the nodes, one partition."""
    given = {key.lower() for key in settings}
    lines = [f"{key}={value}" for key, value in _SLURM.items() if key.lower() not in given]
    lines += [f"{key}={value}" for key, value in settings.items()]
    lines += node_lines
    lines.append("PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
    SLURM_CONF.write_text("\n".join(lines) + "\n")
    for folder, owner in (("/var/spool/slurmctld", "slurm"), ("/var/spool/slurmd", "root")):
        Path(folder).mkdir(exist_ok=True)
        shutil.chown(folder, owner)


def write_cgroup_conf() -> dict[str, str]:
    """Constrain devices. Cores and memory are not: nodes claim more than the machine has. Returns
    what slurm.conf has to say."""
    (ETC_SLURM / "cgroup.conf").write_text(
        "CgroupMountpoint=/sys/fs/cgroup\nIgnoreSystemd=yes\nConstrainDevices=yes\n"
    )
    return {"ProctrackType": "proctrack/cgroup", "TaskPlugin": "task/cgroup"}


def write_bridge() -> dict[str, str]:
    """A job_submit.lua that takes in the bridge. Returns what slurm.conf has to say."""
    (ETC_SLURM / "job_submit.lua").write_text(_JOB_SUBMIT)
    SELECT_SOCKET.parent.mkdir(exist_ok=True)
    shutil.chown(SELECT_SOCKET.parent, "slurm")
    return {"JobSubmitPlugins": "lua"}


def plain_nodes(names: Sequence[str]) -> list[str]:
    return _with_ports([f"NodeName={name} {_PLAIN_NODE}" for name in names])


def generate(plan: str, release: str) -> list[str]:
    """Let `vgpu config generate` write its files. Returns the lines that slurm.conf needs."""
    path = ETC_SLURM / "plan.yaml"
    path.write_text(plan)
    options = ["-o", str(ETC_SLURM), "--slurm", release, "--force"]
    command = ["vgpu", "config", "generate", str(path), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SandboxError(f"the plan cannot be used: {done.stderr.strip()}")
    return fit()


def write(files: Mapping[str, str]) -> list[str]:
    """Take files that were generated elsewhere. Returns the lines that slurm.conf needs."""
    for name, text in files.items():
        path = ETC_SLURM / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return fit()


def fit() -> list[str]:
    """Fit generated files to nodes on one host, which need a port and a runtime folder each, and
    to a cluster without accounting, where AccountingStorageTRES is fatal to slurmctld."""
    lines = [line for line in _FRAGMENT.read_text().splitlines() if not _ACCOUNTING.match(line)]
    _FRAGMENT.write_text("\n".join(_with_ports(lines)) + "\n")
    plugstack = _PLUGSTACK.read_text()
    if "runtime_dir=" not in plugstack:
        _PLUGSTACK.write_text(
            re.sub(r"(?m)^(required .*)$", r"\1 runtime_dir=/run/vgpu/%n", plugstack)
        )
    return [f"include {_FRAGMENT.name}"]


def _with_ports(lines: Sequence[str]) -> list[str]:
    port = FIRST_PORT
    fitted = []
    for line in lines:
        count = len(_names(line))
        ports = f" NodeHostname={HOSTNAME} Port=[{port}-{port + count - 1}]" if count else ""
        fitted.append(line + ports)
        port += count
    return fitted


def _names(line: str) -> list[str]:
    match = re.match(r"(?i)NodeName=(\S+)", line)
    if not match or match[1].upper() == "DEFAULT":
        return []
    return list(hostlist.expand_hostlist(match[1]))


def nodes() -> dict[str, int]:
    """Node -> port, of all nodes in slurm.conf and what it includes."""
    text = SLURM_CONF.read_text() + (_FRAGMENT.read_text() if _FRAGMENT.exists() else "")
    found: dict[str, int] = {}
    for line in text.splitlines():
        names = _names(line)
        first = re.search(r"Port=\[?(\d+)", line)
        found |= {name: int(first[1]) + i for i, name in enumerate(names) if first}
    if not found:
        raise SandboxError("no node is described: the plan's node sets need the key slurm")
    if len(found) > _MOST_NODES:
        raise SandboxError(
            f"{len(found)} nodes are too many for one machine; at most {_MOST_NODES}"
        )
    return found
