"""Run Python on a simulated machine: nvidia-ml-py and cuda-bindings meet the simulated driver.

assert shared("n.nvmlInit(); answer = n.nvmlDeviceGetCount()", machine="dgx-1v") == 8
"""

from __future__ import annotations

import atexit
import json
import subprocess
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

from tests.gpusim import prelude
from tests.sandbox import gpus
from tests.sandbox.paths import PYTHON_INSIDE, REPOSITORY, SOURCE

GPUSIM = REPOSITORY / "tests" / "gpusim" / "gpusim"
STAT = SOURCE / "build" / "gpusim" / "gpusim-stat"
PROGRAMS = SOURCE / "build" / "gpusim" / "programs"

_PRELUDE = f"""
import ctypes, json, os, signal, subprocess, sys, time
from pathlib import Path
STAT = {str(STAT)!r}
{prelude.COMMON}
def stat(*options):
    "What the simulator itself says."
    return json.loads(subprocess.check_output([STAT, "--json", *options]))
"""


# Inside: runs each snippet that comes as a line of JSON in a process of its own, with which all
# that it started ends.
_SERVER = """
import json, os, signal, subprocess, sys
for line in sys.stdin:
    snippet = subprocess.Popen([sys.executable, "-c", json.loads(line)], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    late = ""
    try:
        snippet.wait(timeout=60)
    except subprocess.TimeoutExpired:
        late = "not done after 60 seconds"
    try:
        os.killpg(snippet.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    output, errors = snippet.communicate()
    if os.path.exists("/run/gpusim/faults"):
        os.unlink("/run/gpusim/faults")
    print(json.dumps([snippet.returncode, output, errors + late]), flush=True)
"""


def _program(code: str, faults: str) -> str:
    lines = [_PRELUDE]
    if faults:
        lines.append(f"faults({faults!r})")
    return "\n".join([*lines, dedent(code), "print(json.dumps(answer))"])


def _run(machine: str, *arguments: str) -> list[str]:
    return [str(GPUSIM), "run", "--machine", machine, *arguments]


def _answer(returncode: int, output: str, errors: str) -> Any:
    assert returncode == 0, errors
    return json.loads(output.splitlines()[-1])


def inside(
    code: str,
    *,
    machine: str = gpus.DEFAULT,
    faults: str = "",
    user: str | None = None,
    timeout: float = 60,
) -> Any:
    """The value that the code leaves in `answer`, through JSON, on a machine of its own."""
    command = _run(machine, *(["--user", user] if user else []), "--", str(PYTHON_INSIDE), "-c")
    done = subprocess.run(
        [*command, _program(code, faults)],
        cwd=Path("/"), capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    return _answer(done.returncode, done.stdout, done.stderr)


@cache
def _server(machine: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        _run(machine, "--", str(PYTHON_INSIDE), "-c", _SERVER),
        cwd=Path("/"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    atexit.register(process.communicate)
    return process


def shared(code: str, *, machine: str = gpus.DEFAULT, faults: str = "") -> Any:
    """The same on a machine that all such snippets share: for those that leave it as it was."""
    server = _server(machine)
    assert server.stdin and server.stdout
    print(json.dumps(_program(code, faults)), file=server.stdin, flush=True)
    return _answer(*json.loads(server.stdout.readline()))
