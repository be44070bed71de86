"""This node, asked through NVML."""

import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from gres.sources import cards, cpus, links
from gres.sources.machine import Gpu, Machine, SourceError
from pysched.topology import nvml as topology

_T = TypeVar("_T")
_WORD = 64
_CPU_WORDS = 64


def read(node: str, nvml: Any = None) -> Machine:
    """What NVML says of this node's GPUs; SourceError where it does not answer.

    ``nvml`` has the functions of the module pynvml, which is the default.
    """
    if nvml is None:
        import pynvml  # noqa: PLC0415 (most commands ask no GPU)

        nvml = pynvml
    try:
        nvml.nvmlInit()
        try:
            handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
            gpus = tuple(_gpu(nvml, handle) for handle in handles)
            driver = _text(nvml.nvmlSystemGetDriverVersion())
            nvlink = links.nvlink(topology.read(nvml))
        finally:
            nvml.nvmlShutdown()
    except (nvml.NVMLError, topology.NvmlError) as error:
        raise SourceError(f"NVML does not say what GPUs this node has: {error}") from None
    return Machine(
        node,
        "NVML of this node",
        gpus,
        nvlink,
        driver,
        cpus.from_sysfs(),
        slurmd_parameters(),
        _mps(),
    )


def slurmd_parameters() -> dict[str, str]:
    """What ``slurmd -C`` says of this node, if there is a slurmd."""
    slurmd = shutil.which("slurmd", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if slurmd is None:
        return {}
    done = subprocess.run([slurmd, "-C"], capture_output=True, text=True, timeout=10, check=False)
    return parse_slurmd(done.stdout)


def parse_slurmd(text: str) -> dict[str, str]:
    """``NodeName=n1 CPUs=2 Boards=1 …`` -> the parameters but the name and what detects GPUs."""
    words = text.splitlines()[0].split() if text.strip() else []
    pairs = (word.partition("=") for word in words)
    return {key: value for key, _, value in pairs if value and key not in ("NodeName", "Gres")}


def _mps(proc: Path = Path("/proc")) -> str:
    """A daemon of MPS on this node: NVML lists only its clients, while they use a GPU."""
    for comm in proc.glob("[0-9]*/comm"):
        try:
            if comm.read_text().strip() == "nvidia-cuda-mps":  # the kernel keeps 15 characters
                argument = (comm.parent / "cmdline").read_bytes().partition(b"\0")[0]
                return f"{Path(argument.decode()).name} ({comm.parent.name})"
        except OSError:  # it has ended
            continue
    return ""


def _gpu(nvml: Any, handle: Any) -> Gpu:
    memory, reserved = _memory(nvml, handle)
    product = _text(_ask(nvml, "", nvml.nvmlDeviceGetName, handle))
    mig = _ask(nvml, [0, 0], nvml.nvmlDeviceGetMigMode, handle)[0] == nvml.NVML_DEVICE_MIG_ENABLE
    persistence = _ask(nvml, None, nvml.nvmlDeviceGetPersistenceMode, handle)
    affinity = _ask(nvml, (), nvml.nvmlDeviceGetCpuAffinity, handle, _CPU_WORDS)
    return Gpu(
        minor=nvml.nvmlDeviceGetMinorNumber(handle),
        product=product,
        uuid=_text(_ask(nvml, "", nvml.nvmlDeviceGetUUID, handle)),
        memory=memory,
        reserved=reserved,
        sms=_sms(nvml, handle) or cards.sms(product),
        cpus=_bits(affinity),
        mig=mig,
        instances=_instances(nvml, handle) if mig else (),
        compute_mode=_compute_mode(nvml, handle),
        persistence=None if persistence is None else bool(persistence),
    )


def _ask(nvml: Any, default: _T, call: Callable[..., Any], *arguments: object) -> _T:
    """What a call says, or the default where this driver or card does not know it."""
    try:
        answer: _T = call(*arguments)
    except nvml.NVMLError:
        return default
    return answer


def _memory(nvml: Any, handle: Any) -> tuple[int, int | None]:
    """Bytes in all, and of these kept by the driver."""
    info = _ask(nvml, None, nvml.nvmlDeviceGetMemoryInfo, handle, nvml.nvmlMemory_v2)
    if info is None:
        return nvml.nvmlDeviceGetMemoryInfo(handle).total, None
    return info.total, info.reserved


def _sms(nvml: Any, handle: Any) -> int | None:
    capability = tuple(_ask(nvml, (0, 0), nvml.nvmlDeviceGetCudaComputeCapability, handle))
    per_sm = cards.CORES_PER_SM.get((capability[0], capability[1]))
    count = _ask(nvml, 0, nvml.nvmlDeviceGetNumGpuCores, handle)
    return math.ceil(count / per_sm) if per_sm and count else None


def _instances(nvml: Any, handle: Any) -> tuple[tuple[str, int], ...]:
    """MIG instances: the profile is the last word of an instance's name."""
    found: list[tuple[str, int]] = []
    for index in range(_ask(nvml, 0, nvml.nvmlDeviceGetMaxMigDeviceCount, handle)):
        instance = _ask(nvml, None, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        if instance is not None:
            name = _text(_ask(nvml, "", nvml.nvmlDeviceGetName, instance))
            gi = _ask(nvml, -1, nvml.nvmlDeviceGetGpuInstanceId, instance)
            found.append((name.rpartition(" ")[2], gi))
    return tuple(sorted(found, key=lambda pair: pair[1]))


def _compute_mode(nvml: Any, handle: Any) -> str:
    names = {
        nvml.NVML_COMPUTEMODE_DEFAULT: "default",
        nvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive-process",
        nvml.NVML_COMPUTEMODE_PROHIBITED: "prohibited",
    }
    return names.get(_ask(nvml, -1, nvml.nvmlDeviceGetComputeMode, handle), "")


def _bits(words: Any) -> frozenset[int]:
    return frozenset(
        at * _WORD + bit for at, word in enumerate(words) for bit in range(_WORD) if word >> bit & 1
    )


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
