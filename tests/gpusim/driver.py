"""Run Python with cuda-bindings, unmodified from PyPI, on a simulated machine.

assert driver("context(); answer = rc(cu.cuMemAlloc(4096))") == 0
"""

from __future__ import annotations

from textwrap import dedent
from typing import Any

from tests.gpusim.inside import inside, shared
from tests.sandbox.gpus import DEFAULT

_PRELUDE = """
import struct, threading
import numpy as np
from cuda.bindings import driver as cu

OOM, INVALID, NOT_INITIALIZED, NO_DEVICE, INVALID_DEVICE = 2, 1, 3, 100, 101

def rc(result):
    "The number of the error, 0 for success."
    return int(result[0])

def ok(result):
    "What the call returns besides success."
    assert rc(result) == 0, result
    return result[1] if len(result) == 2 else list(result[1:])

def context(device=0):
    "Initialise CUDA; the device's primary context is current."
    ok(cu.cuInit(0))
    primary = ok(cu.cuDevicePrimaryCtxRetain(ok(cu.cuDeviceGet(device))))
    ok(cu.cuCtxSetCurrent(primary))
    return primary

def kernel(name):
    return ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(b".version 8.0 ")), name.encode()))

def launch(function, *arguments, stream=0, grid=(1, 1, 1), block=(1, 1, 1)):
    "Launch; arguments are numpy scalars. Returns the error."
    values = [np.asarray(a) for a in arguments]
    pointers = np.array([v.ctypes.data for v in values] or [0], dtype=np.uint64)
    return rc(cu.cuLaunchKernel(function, *grid, *block, 0, stream, pointers.ctypes.data, 0))

def ns(n):
    return np.uint64(n)

def download(pointer, count, dtype=np.uint32):
    host = np.zeros(count, dtype=dtype)
    ok(cu.cuMemcpyDtoH(host.ctypes.data, pointer, host.nbytes))
    return host

def used(device=0):
    "Bytes in use on the device of the current context."
    free, total = ok(cu.cuMemGetInfo())
    return total - free

def device_location(device=0):
    location = cu.CUmemLocation()
    location.type, location.id = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, device
    return location
"""

# A second process that knows the same names.
OTHER = """
def other(program, *arguments, fds=()):
    "Run Python in another process; it may talk over its standard input and output."
    prelude = Path("/proc/self/cmdline").read_text().split("\\0")[2].split("# end " + "of prelude")[
        0]
    return subprocess.Popen([sys.executable, "-c", prelude + program, *map(str, arguments)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=fds)
# end of prelude
"""


def driver(code: str, *, alone: bool = False, faults: str = "", machine: str = DEFAULT) -> Any:
    """The value that the code leaves in `answer`.

    Code that leaves more than its processes behind (faults,
        device files) is run on a machine of its own.
    """
    if alone or faults:
        return inside(_PRELUDE + dedent(code), faults=faults, machine=machine)
    return shared(_PRELUDE + dedent(code), machine=machine)
