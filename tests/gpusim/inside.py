"""Run Python on a simulated machine: nvidia-ml-py and cuda-bindings meet the simulated driver.

assert inside("n.nvmlInit(); answer = n.nvmlDeviceGetCount()", machine="dgx-1v") == 8
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from textwrap import dedent
from typing import Any

from tests.sandbox import gpus
from tests.sandbox.paths import PYTHON_INSIDE, REPOSITORY, SOURCE

GPUSIM = REPOSITORY / "tests" / "gpusim" / "gpusim"
STAT = SOURCE / "build" / "gpusim" / "gpusim-stat"
PROGRAMS = SOURCE / "build" / "gpusim" / "programs"

_PRELUDE = """
import ctypes, json, os, signal, subprocess, sys, time
from pathlib import Path
import pynvml as n

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

def error(function, *arguments):
    "The NVML error that the call raises; 0 if it raises none."
    try:
        function(*arguments)
    except n.NVMLError as raised:
        return raised.value
    return 0

def gpus():
    "Initialise NVML; a handle for each GPU."
    n.nvmlInit()
    return [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]

def faults(text):
    "Change the faults at once, so that no reader sees half of them."
    Path("/run/gpusim/faults.new").write_text(text)
    os.rename("/run/gpusim/faults.new", "/run/gpusim/faults")

def stat(*options):
    "What the simulator itself says."
    return json.loads(subprocess.check_output([{stat!r}, "--json", *options]))
"""


def inside(
    code: str,
    *,
    machine: str = gpus.DEFAULT,
    faults: str = "",
    user: str | None = None,
    timeout: float = 60,
) -> Any:
    """The value that the code leaves in `answer`, through JSON."""
    lines = [_PRELUDE.format(stat=str(STAT))]
    if faults:
        lines.append(f"faults({faults!r})")
    lines += [dedent(code), "print(json.dumps(answer))"]
    command = [str(GPUSIM), "run", "--machine", machine]
    command += ["--user", user] if user else []
    command += ["--", str(PYTHON_INSIDE), "-c", "\n".join(lines)]
    done = subprocess.run(
        command, cwd=Path("/"), capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
