"""tests/gpusim/gpusim: the command line."""

import argparse
import os
import sys

from tests.sandbox import gpus, processes
from tests.sandbox.errors import SandboxError
from tests.sandbox.paths import BUILD
from tests.sandbox.runner import Sandbox

_STAT = BUILD / "gpusim" / "gpusim-stat"


def main() -> int:
    if sys.argv[1:2] == ["stat"]:
        os.execv(_STAT, ["gpusim-stat", *sys.argv[2:]])
    options = _parser().parse_args()
    try:
        return _run(options)
    except SandboxError as error:
        print(f"gpusim: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpusim", description=__doc__)
    commands = parser.add_subparsers(dest="action", required=True)
    run = commands.add_parser("run", help="run a command on a machine with simulated GPUs")
    run.add_argument("--machine", default=gpus.DEFAULT, metavar="FILE")
    run.add_argument(
        "--user", metavar="NAME", help="run as alice, bob, user1 ... user8 instead of root"
    )
    run.add_argument("command", nargs="+", metavar="COMMAND")
    commands.add_parser("stat", help="what each process holds and used on each GPU", add_help=False)
    return parser


def _run(options: argparse.Namespace) -> int:
    sandbox = Sandbox("gpusim", gpus.read_machine(options.machine))
    return sandbox.run(lambda: processes.execute(options.command, os.environ, options.user))
