"""Run a command on a Slurm cluster of its own, with simulated GPUs."""

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import hostlist

from tests.cluster.mini import daemons
from tests.cluster.mini.cluster import Cluster
from tests.cluster.mini.paths import SLURM_CONF
from tests.sandbox import gpus, kernel, processes, users
from tests.sandbox.daemon import Daemon
from tests.sandbox.errors import SandboxError
from tests.sandbox.runner import Sandbox

_CTL: Mapping[str, Callable[[Daemon], None]] = {
    "start": lambda daemon: daemon.start(),
    "stop": lambda daemon: daemon.stop(),
    "kill": lambda daemon: daemon.stop(signal.SIGKILL),
    "restart": lambda daemon: daemon.restart(),
}


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        return int(options.function(options))
    except SandboxError as error:
        print(f"minicluster: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="minicluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="run|ctl")

    run = commands.add_parser("run", help="start a cluster, run a command, take the cluster down")
    run.set_defaults(function=_run)
    run.add_argument(
        "--nodes", type=int, default=2, metavar="N",
        help="nodes n1 ... nN (2), if no plan names others",
    )  # fmt: skip
    run.add_argument(
        "--machine", action="append", default=[], metavar="[NODES=]FILE",
        help=f"machine file, or its name in tests/gpusim/machines ({gpus.DEFAULT})",
    )  # fmt: skip
    plan = run.add_mutually_exclusive_group()
    plan.add_argument(
        "--plan",
        metavar="FILE",
        help="plan.yaml; `none`: Slurm without vGPUs (default: 4 GiB vGPUs)",
    )
    plan.add_argument(
        "--conf", type=Path, metavar="DIR", help="files that `vgpu config generate` has written"
    )
    run.add_argument("--slurm", default="22.05", choices=["22.05"], help="release of Slurm (22.05)")
    run.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="line of slurm.conf"
    )
    run.add_argument(
        "--cgroup",
        action="store_true",
        help="proctrack/cgroup and task/cgroup, ConstrainDevices=yes",
    )
    run.add_argument(
        "--device", action="append", default=[], metavar="PATH", type=Path,
        help="device file that every node has, beside the GPUs'",
    )  # fmt: skip
    run.add_argument(
        "--services",
        action="store_true",
        help="vgpu-agent on each node, vgpu-select and the bridge beside slurmctld",
    )
    run.add_argument(
        "--user", metavar="NAME", choices=users.NAMES,
        help="run the command as alice, bob, user1 ... user8",
    )  # fmt: skip
    run.add_argument(
        "--installed",
        action="store_true",
        help="with the suite that is installed on this machine, not with what is built here",
    )
    run.add_argument("command", nargs="+", metavar="COMMAND", help="runs with SLURM_CONF set")

    ctl = commands.add_parser(
        "ctl", help="inside: start, stop, kill or restart one daemon and wait for it"
    )
    ctl.set_defaults(function=_ctl)
    ctl.add_argument("host", metavar="NODE", help="a node, or `controller`")
    ctl.add_argument("action", choices=sorted(_CTL))
    ctl.add_argument("daemon", help="vgpud or slurmd; of the controller munged or slurmctld")
    return parser


def _run(options: argparse.Namespace) -> int:
    cluster = _cluster(options)
    sandbox = Sandbox(
        "minicluster",
        cluster.machine,
        with_cgroups=options.cgroup,
        installed=options.installed,
    )
    return sandbox.run(lambda: _body(cluster, options.command, options.user))


def _body(cluster: Cluster, command: Sequence[str], user: str | None) -> int:
    with kernel.umask(0o022):
        cluster.start()
    return processes.run(command, {**os.environ, "SLURM_CONF": str(SLURM_CONF)}, user)


def _cluster(options: argparse.Namespace) -> Cluster:
    if options.nodes < 1:
        raise SandboxError(f"--nodes {options.nodes}: at least 1 is expected")
    machine, machines = _machines(options.machine)
    return Cluster(
        machine=machine,
        machines=machines,
        nodes=options.nodes,
        plan=_read(Path(options.plan)) if options.plan not in (None, "none") else None,
        conf=_files(options.conf) if options.conf else None,
        vgpus=options.plan != "none",
        release=options.slurm,
        cgroup=options.cgroup,
        services=options.services,
        settings=_settings(options.set),
        devices=options.device,
    )


def _machines(arguments: Sequence[str]) -> tuple[gpus.Machine, dict[str, gpus.Machine]]:
    common = gpus.DEFAULT
    own: dict[str, gpus.Machine] = {}
    for argument in arguments:
        match = re.fullmatch(r"([\w.,\[\]-]+)=(.+)", argument)
        if match:
            own |= dict.fromkeys(_hosts(match[1]), gpus.read_machine(match[2]))
        else:
            common = argument
    return gpus.read_machine(common), own


def _hosts(text: str) -> list[str]:
    try:
        return list(hostlist.expand_hostlist(text))
    except hostlist.BadHostlist as error:
        raise SandboxError(f"--machine {text}=: a list of nodes is expected: {error}") from None


def _files(folder: Path) -> dict[str, str]:
    """Read now what may not be there any more in the sandbox."""
    if not (folder / "slurm-vgpu.conf").exists():
        raise SandboxError(
            f"--conf {folder}: `vgpu config generate` has not written anything there"
        )
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): _read(path) for path in files}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SandboxError(f"{path} cannot be read: {error}") from None


def _settings(arguments: Sequence[str]) -> dict[str, str]:
    settings = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not (key and equals):
            raise SandboxError(f"--set {argument}: KEY=VALUE is expected")
        settings[key] = value
    return settings


def _ctl(options: argparse.Namespace) -> int:
    _CTL[options.action](daemons.find(options.host, options.daemon))
    return 0
