"""Run a command in another Debian: python -m tests.roots run --suite trixie -- COMMAND"""
import argparse
import subprocess
import sys
from pathlib import Path

from tests.roots import Bind, RootError, entered


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.roots", description=__doc__)
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="run a command in a copy of a root, as root")
    run.add_argument("--suite", required=True, choices=["bookworm", "trixie"])
    run.add_argument("--packages", default="", help="what it is to have, by commas")
    run.add_argument("--bind", action="append", default=[], type=_bind, metavar="SRC:DST[:ro]")
    run.add_argument("--keep-network", action="store_true", help="else it has none")
    run.add_argument("command", nargs="+")
    options = parser.parse_args()
    packages = [name for name in options.packages.split(",") if name]
    try:
        with entered(options.suite, packages, options.bind, network=options.keep_network) as copy:
            return subprocess.run([*copy.enter, *options.command], check=False).returncode
    except RootError as error:
        print(f"roots: {error}", file=sys.stderr)
        return 2


def _bind(text: str) -> Bind:
    source, _, rest = text.partition(":")
    target, _, option = rest.partition(":")
    if not (source.startswith("/") and target.startswith("/") and option in ("", "ro")):
        raise argparse.ArgumentTypeError(f'"{text}": /SRC:/DST or /SRC:/DST:ro is expected')
    return Bind(Path(source), Path(target), option == "ro")


if __name__ == "__main__":
    sys.exit(main())
