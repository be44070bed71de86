"""tests/gpusim/gpusim: the command line."""

import argparse
import os
import sys

from tests.sandbox import gpus, processes, users, vgpus
from tests.sandbox.errors import SandboxError
from tests.sandbox.paths import BUILD
from tests.sandbox.runner import Sandbox

_STAT = BUILD / "gpusim" / "gpusim-stat"


def main() -> int:
    if sys.argv[1:2] == ["stat"]:
        return processes.execute([str(_STAT), *sys.argv[2:]], os.environ)
    options = _parser().parse_args()
    try:
        return _run(options)
    except SandboxError as error:
        print(f"gpusim: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpusim", description="Machines with simulated GPUs, and what is used on them."
    )
    commands = parser.add_subparsers(dest="action", required=True)
    run = commands.add_parser("run", help="run a command on a machine with simulated GPUs")
    run.add_argument(
        "--machine", default=gpus.DEFAULT, metavar="FILE",
        help=f"machine file, or its name in tests/gpusim/machines ({gpus.DEFAULT})",
    )  # fmt: skip
    run.add_argument(
        "--vgpu", action="append", default=[], metavar="MEM[,GUARANTEED/MAX]",
        help="hold a vGPU of so much memory and so many SMs, with vgpud and shim; repeatable",
    )  # fmt: skip
    run.add_argument(
        "--user", metavar="NAME", choices=users.NAMES,
        help="run as alice, bob, user1 ... user8 instead of root",
    )  # fmt: skip
    run.add_argument("command", nargs="+", metavar="COMMAND")
    commands.add_parser("stat", help="what each process holds and used on each GPU", add_help=False)
    return parser


def _run(options: argparse.Namespace) -> int:
    machine = gpus.read_machine(options.machine)
    shares = [vgpus.parse_share(text, machine) for text in options.vgpu]

    def body() -> int:
        if shares:
            return vgpus.run(machine, shares, options.command, os.environ, options.user)
        return processes.execute(options.command, os.environ, options.user)

    return Sandbox("gpusim", machine).run(body)
