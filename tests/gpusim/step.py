"""A step with vGPUs, without Slurm: vgpud, shim and simulated driver, and Python to use them with.

with Step("1GiB") as step:
    assert step.run("start(); answer = info()") == [...]

Each snippet runs in a process of its own, with NVIDIA's cuda-bindings as `d`, nvidia-ml-py as `n`,
and the raw library as `raw`. What it leaves in `answer` comes back. Afterwards the vGPU must be
as empty as before.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from types import TracebackType
from typing import Any, Self

from tests.gpusim import prelude
from tests.sandbox import gpus
from tests.sandbox.paths import PYTHON_INSIDE, REPOSITORY, SOURCE

GPUSIM = REPOSITORY / "tests" / "gpusim" / "gpusim"
BUILD = SOURCE / "build"
PROGRAMS = BUILD / "gpusim" / "programs"
SHIM_PROGRAMS = BUILD / "shim" / "programs"
SHIM = "/usr/lib/x86_64-linux-gnu/slurm-vgpu/libvgpu.so"

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

_PRELUDE = f"""
import ctypes, json, os, random, signal, subprocess, sys, textwrap, threading, time
from pathlib import Path
from cuda.bindings import driver as d
{prelude.COMMON}
PROGRAMS, SHIM_PROGRAMS, SHIM = {str(PROGRAMS)!r}, {str(SHIM_PROGRAMS)!r}, {SHIM!r}
OOM = 2

def code(result):
    "The CUDA error of a call."
    return int(result[0])

def ok(result):
    "The value of a call that must succeed."
    assert int(result[0]) == 0, result
    return result[1] if len(result) == 2 else result[1:] or None

def start(device=0):
    "Initialise CUDA; the primary context of the device is current. Returns it."
    ok(d.cuInit(0))
    context = ok(d.cuDevicePrimaryCtxRetain(device))
    ok(d.cuCtxSetCurrent(context))
    return context

def info():
    "Free and total bytes."
    return list(ok(d.cuMemGetInfo()))

def used():
    free, total = info()
    return total - free

def fill(take, size):
    "Take objects of the size until there is no room; returns them."
    taken = []
    while True:
        result = take(size)
        if code(result) == OOM:
            return taken
        taken.append(ok(result))

def location(device=0, kind=None):
    place = d.CUmemLocation()
    place.type = kind or d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    place.id = device
    return place

def pool_of(device=0, kind=None):
    props = d.CUmemPoolProps()
    props.allocType = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    props.location = location(device, kind)
    return ok(d.cuMemPoolCreate(props))

def vmm(size, device=0, kind=None):
    prop = d.CUmemAllocationProp()
    prop.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location = location(device, kind)
    return d.cuMemCreate(size, prop, 0)

def raw():
    return ctypes.CDLL("libcuda.so.1")

def stat(*options):
    "What the simulator itself says."
    return json.loads(subprocess.check_output(
        ["{BUILD}/gpusim/gpusim-stat", "--json", *options], env={{"LD_PRELOAD": ""}}))

def held(gpu=0):
    "Bytes that the simulator counts on a GPU of the machine."
    return stat()["gpus"][gpu]["used"]

def kinds(pid=None, gpu=0):
    "Bytes by kind, of a process, by the simulator."
    pid = pid or os.getpid()
    for process in stat()["gpus"][gpu]["processes"]:
        if process["pid"] == pid:
            return process["kinds"]
    return {{}}

def child(code, *arguments, **options):
    "A process that runs more of this, with `say` and `hear` to talk with."
    return Child(code, *arguments, **options)

def say(value):
    print(json.dumps(value), flush=True)

def hear():
    "What the parent says; the end when it has ended."
    line = sys.stdin.readline()
    return json.loads(line) if line else os._exit(0)

class Child:
    def __init__(self, code, *arguments, **options):
        self.process = subprocess.Popen(
            [sys.executable, "-c", "PRELUDE = " + repr(PRELUDE) + PRELUDE + textwrap.dedent(code),
             *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        self.pid = self.process.pid
    def hear(self):
        line = self.process.stdout.readline()
        assert line, f"the child ended: {{self.process.wait()}}"
        return json.loads(line)
    def say(self, value=None):
        print(json.dumps(value), file=self.process.stdin, flush=True)
    def kill(self):
        self.process.kill()
        self.process.wait()
    def end(self):
        self.process.stdin.close()
        return self.process.wait()
"""

# Inside: runs each snippet that comes as a line of JSON, and looks what it left behind.
_SERVER = f"""
import json, os, subprocess, sys, time
sys.path.insert(0, {str(SOURCE)!r})
from pysched.vgpud_client import Vgpud

def left():
    "Bytes held, bytes charged, processes attached, when vgpud has had time to notice."
    for _ in range(500):
        stat = json.loads(subprocess.check_output(["{BUILD}/gpusim/gpusim-stat", "--json"]))
        bindings = list(Vgpud().bindings()) if os.path.exists("/run/vgpu") else []
        left = [sum(gpu["used"] for gpu in stat["gpus"]), sum(b.charged for b in bindings),
                sum(b.processes for b in bindings)]
        if not any(left):
            break
        time.sleep(0.02)
    return left

# Programs look for faults only if there is a file when they begin.
faults = "/run/gpusim/faults"
open(faults, "w").close()
print("ready", flush=True)
for line in sys.stdin:
    request = json.loads(line)
    with open("/tmp/snippet.py", "w") as file:
        file.write(request["code"])
    done = subprocess.run([sys.executable, "/tmp/snippet.py"], capture_output=True, text=True,
        env=os.environ | request["env"], cwd="/tmp")
    if os.path.getsize(faults):
        open(faults, "w").close()
    print(json.dumps([done.returncode, done.stdout, done.stderr, left()]), flush=True)
"""


@dataclass
class Step:
    """vGPUs of these sizes, as long as the with block. None: the simulated driver alone."""

    vgpus: tuple[str, ...] = ("1GiB",)
    machine: str = gpus.DEFAULT
    _process: subprocess.Popen[str] = field(init=False, repr=False)

    def __enter__(self) -> Self:
        command = [str(GPUSIM), "run", "--machine", self.machine]
        for memory in self.vgpus:
            command += ["--vgpu", memory]
        command += ["--", str(PYTHON_INSIDE), "-u", "-c", _SERVER]
        self._process = subprocess.Popen(
            command, cwd=Path("/"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._line() == "ready\n"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline()

    def outcome(
        self, code: str, env: dict[str, str] | None = None, *, spoils: bool = False
    ) -> tuple[int, str, str]:
        """Exit code, output and errors of a snippet. One that spoils the vGPU may leave it so."""
        assert self._process.stdin
        whole = f"PRELUDE = {_PRELUDE!r}\n{_PRELUDE}\n{dedent(code)}\n"
        print(json.dumps({"code": whole, "env": env or {}}), file=self._process.stdin, flush=True)
        returncode, output, errors, left = json.loads(self._line())
        assert spoils or not any(left), (
            f"left: {left} bytes held, bytes charged, processes attached"
        )
        return returncode, output, errors

    def run(self, code: str, env: dict[str, str] | None = None, *, spoils: bool = False) -> Any:
        """The value that a snippet leaves in `answer`. Nothing may appear on its stderr."""
        whole = f"{dedent(code)}\nprint(json.dumps(answer))"
        returncode, output, errors = self.outcome(whole, env, spoils=spoils)
        assert (returncode, errors) == (0, ""), errors or output
        return json.loads(output.splitlines()[-1])
