"""python -m tests.bench [NAME ...] [--quick] [--json]: the promises, measured beside a baseline.

The exit code says only whether it could be measured; whether the promises hold is in the output.
"""

import argparse
import importlib
import sys

from tests.bench.figures import as_json, as_table

BENCHES = (
    "launch", "memory", "share", "switch", "burst", "place", "submit", "stepstart",
    "generate", "consolidate",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.bench", description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}; all if none is given"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a smaller sample, under a minute each"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument(
        "--shim", metavar="LIBRARY", help="share: another LD_PRELOAD library to run beside ours"
    )
    parser.add_argument(
        "--shim-env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="share: its environment",
    )
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(BENCHES))
    if unknown:
        parser.error(f"{unknown[0]}: one of {', '.join(BENCHES)} is expected")
    failed = 0
    for name in options.names or BENCHES:
        module = importlib.import_module(f"tests.bench.{name}")
        extra = {"shim": options.shim, "shim_env": options.shim_env} if name == "share" else {}
        try:
            figures = module.run(options.quick, **extra)
        except Exception as error:  # one bench that cannot be measured does not hide the others
            print(f"{name}: could not be measured: {error}", file=sys.stderr)
            failed += 1
            continue
        print(as_json(name, figures) if options.json else as_table(name, figures), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
