"""What a Python program sees through NVIDIA's cuda-bindings and nvidia-ml-py, as a line of JSON."""

import json
from typing import Any

import pynvml
from cuda.bindings import driver as cu


def value(result: Any) -> Any:
    """The value of a call that has to succeed."""
    error, *values = result
    assert error == cu.CUresult.CUDA_SUCCESS, error
    return values[0] if len(values) == 1 else values


def device(ordinal: int) -> dict[str, Any]:
    handle = value(cu.cuDeviceGet(ordinal))
    uuid = bytes(value(cu.cuDeviceGetUuid(handle)).bytes).hex()
    return {"uuid": uuid, "total": value(cu.cuDeviceTotalMem(handle))}


def fill(granule: int) -> dict[str, Any]:
    """Take blocks until one is refused; then give one back and take it again, and free all."""
    blocks = []
    while True:
        error, block = cu.cuMemAlloc(granule)
        if error != cu.CUresult.CUDA_SUCCESS:
            break
        blocks.append(block)
    value(cu.cuMemFree(blocks.pop()))
    blocks.append(value(cu.cuMemAlloc(granule)))
    free, total = value(cu.cuMemGetInfo())
    for block in blocks:
        value(cu.cuMemFree(block))
    return {"bytes": len(blocks) * granule, "refusal": error.name, "free": free, "total": total}


def nvml() -> list[dict[str, Any]]:
    pynvml.nvmlInit()
    handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
    seen = []
    for handle in handles:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        uuid = pynvml.nvmlDeviceGetUUID(handle).removeprefix("GPU-").replace("-", "")
        seen.append({"uuid": uuid, "total": memory.total, "used": memory.used, "free": memory.free})
    pynvml.nvmlShutdown()
    return seen


def main() -> None:
    value(cu.cuInit(0))
    devices = [device(ordinal) for ordinal in range(value(cu.cuDeviceGetCount()))]
    before = nvml()
    context = value(cu.cuDevicePrimaryCtxRetain(value(cu.cuDeviceGet(0))))
    value(cu.cuCtxSetCurrent(context))
    print(json.dumps({"devices": devices, "nvml": before, "fill": fill(64 << 20)}))


if __name__ == "__main__":
    main()
