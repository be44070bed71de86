"""What a job sees: its devices, their memory, and what happens at the quota.

Plain cuda-bindings; nothing of slurm-vgpu.
"""

import os
import sys
import time
from typing import Any

from cuda.bindings import driver as cu

GIB = 1 << 30


def check(result: tuple) -> Any:
    """The value of a successful call, or SystemExit with the error's name."""
    error, *values = result
    if error != cu.CUresult.CUDA_SUCCESS:
        raise SystemExit(f"unexpected: {error.name}")
    return values[0] if len(values) == 1 else values


def describe() -> None:
    """What the job was given."""
    count = check(cu.cuDeviceGetCount())
    print(f"  SLURM_JOB_VGPUS={os.environ['SLURM_JOB_VGPUS']}, and CUDA sees {count} devices:")
    for ordinal in range(count):
        device = check(cu.cuDeviceGet(ordinal))
        name = check(cu.cuDeviceGetName(96, device)).split(b"\0")[0].decode()
        total = check(cu.cuDeviceTotalMem(device))
        uuid = bytes(check(cu.cuDeviceGetUuid(device)).bytes).hex()
        print(f"    device {ordinal}: {name}, {total / GIB:.2f} GiB, GPU-{uuid[:8]}...")


def open_context(ordinal: int) -> None:
    """Make the device's primary context the current one."""
    check(cu.cuCtxSetCurrent(check(cu.cuDevicePrimaryCtxRetain(check(cu.cuDeviceGet(ordinal))))))


def fill() -> None:
    """Allocate until the quota says no, and go on from there."""
    free, total = check(cu.cuMemGetInfo())
    print(
        f"  device 0: {free / GIB:.2f} of {total / GIB:.2f} GiB free (its context has the rest)"
    )
    blocks = []
    while True:
        error, block = cu.cuMemAlloc(GIB // 4)
        if error != cu.CUresult.CUDA_SUCCESS:
            break
        blocks.append(block)
    print(f"  took {len(blocks)} blocks of 256 MiB; the next one: {error.name}")
    check(cu.cuMemFree(blocks.pop()))
    blocks.append(check(cu.cuMemAlloc(GIB // 4)))
    print("  freed one, took one: the program goes on")
    for block in blocks:
        check(cu.cuMemFree(block))


def hold() -> None:
    """Hold 1 GiB on each device."""
    for ordinal in range(check(cu.cuDeviceGetCount())):
        open_context(ordinal)
        check(cu.cuMemAlloc(GIB))
    time.sleep(60)


def main() -> None:
    check(cu.cuInit(0))
    if "--hold" in sys.argv:
        hold()
        return
    describe()
    open_context(0)
    fill()


if __name__ == "__main__":
    main()
