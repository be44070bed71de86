"""The GPUs of the node that this runs on, against the plan."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gres.check.finding import Finding
from gres.check.state import State
from gres.layout import NodeLayout
from gres.plan import Gpus
from gres.sources.machine import Gpu, Machine
from pysched import sizes

OLDEST_DRIVER = (515, 65, 1)


def check(state: State) -> Iterator[Finding]:
    if state.node is None:
        return
    layout = state.layout.groups[state.group_of()[state.node]].layout
    if state.machine is None:
        found: Iterable[Finding] = [_no_nvml(state.missing["nvml"])]
    else:
        found = _machine(layout, state.machine)
    for finding in found:
        yield replace(finding, nodes=(state.node,))


def _no_nvml(error: str) -> Finding:
    return Finding(
        "driver",
        "NVML",
        error,
        "vgpud does not start on the node, and no program there can use a GPU",
        "install NVIDIA's driver, or load it (nvidia-smi must list the GPUs)",
    )


def _machine(layout: NodeLayout, machine: Machine) -> Iterator[Finding]:
    yield from _driver(machine.driver)
    there = {gpu.minor: gpu for gpu in machine.gpus}
    for planned in layout.gpus:
        gpu = there.get(planned.minor)
        if gpu is None:
            yield _missing(planned)
            continue
        yield from _mig(planned, gpu)
        if planned.vgpus:
            yield from _card(planned, gpu)
            yield from _modes(gpu)
    if layout.slots:
        yield from _mps(machine.mps)
    yield from _unplanned(layout, machine)
    yield from _links(layout, machine)


def _where(minor: int) -> str:
    return f"GPU {minor}"


def _driver(version: str) -> Iterator[Finding]:
    parts = tuple(int(part) for part in version.split(".") if part.isdecimal())
    if parts and parts < OLDEST_DRIVER:
        yield Finding(
            "driver",
            "NVML",
            f"driver {version} where 515.65.01 is the oldest that is supported",
            "memory of processes cannot be told apart, and programs may find ways past the quota",
            "install a newer driver",
        )


def _missing(planned: Gpus) -> Finding:
    return Finding(
        "gpu-missing",
        _where(planned.minor),
        f"the plan has a GPU /dev/nvidia{planned.minor} where NVML lists none",
        "vgpud does not start on the node, or slurmd ends with: fatal: can't stat gres.conf file "
        f"/dev/nvidia{planned.minor}: No such file or directory",
        "take the GPU out of the plan, or repair it (nvidia-smi -L, dmesg)",
    )


def _card(planned: Gpus, gpu: Gpu) -> Iterator[Finding]:
    """The card must hold what is promised on it."""
    card = planned.card
    memory = sum(kind.memory * count for kind, count in planned.vgpus)
    sms = sum(kind.sms * count for kind, count in planned.vgpus)
    if memory > gpu.memory - card.reserve:
        size = sizes.approximate_size
        yield Finding(
            "overcommit",
            _where(planned.minor),
            f"quotas of {size(memory)} on a card of {size(gpu.memory)}",
            "vgpud does not start on the node, or jobs meet CUDA_ERROR_OUT_OF_MEMORY below "
            "their quota",
            f"correct memory: of {card.name} in the plan, or give the GPU fewer vGPUs",
        )
    elif gpu.sms is not None and sms > gpu.sms:
        yield Finding(
            "overcommit",
            _where(planned.minor),
            f"guarantees of {sms} SMs on a card of {gpu.sms}",
            "guarantees cannot be kept when all vGPUs are busy",
            f"correct sms: of {card.name} in the plan, or give the GPU fewer vGPUs",
        )
    if planned.uuid and gpu.uuid.lower() != planned.uuid.lower():
        yield Finding(
            "gpu-uuid",
            _where(planned.minor),
            f"is {gpu.uuid} where the plan has {planned.uuid}",
            "vgpud does not start on the node",
            "correct uuid: in the plan, or find out which card was exchanged",
        )


def _mig(planned: Gpus, gpu: Gpu) -> Iterator[Finding]:
    number = planned.minor
    if gpu.mig and not planned.mig:
        yield Finding(
            "gpu-mig",
            _where(number),
            "in MIG mode where the plan has it as one card",
            "programs see no GPU, or an instance in place of their vGPU",
            f"nvidia-smi -i {number} -mig 0 on the drained node, or plan it with mig:",
        )
    elif planned.mig and not gpu.mig:
        yield Finding(
            "gpu-mig",
            _where(number),
            "not in MIG mode where the plan has MIG instances on it",
            "slurmd does not start: fatal: can't stat gres.conf file /dev/nvidia-caps/…",
            f"nvidia-smi -i {number} -mig 1 on the drained node, or change the plan",
        )


def _modes(gpu: Gpu) -> Iterator[Finding]:
    number = gpu.minor
    if gpu.compute_mode in ("exclusive-process", "prohibited"):
        yield Finding(
            "gpu-compute-mode",
            _where(number),
            f"compute mode {gpu.compute_mode} where vGPUs need default",
            "only one process, or none, gets a context: the other jobs end with "
            "CUDA_ERROR_DEVICE_UNAVAILABLE",
            f"nvidia-smi -i {number} -c DEFAULT",
        )
    if gpu.persistence is False:
        yield Finding(
            "gpu-persistence",
            _where(number),
            "persistence mode is off",
            "the driver unloads its state between jobs: each first use takes seconds, and modes "
            "are forgotten",
            "enable the service nvidia-persistenced",
        )


def _mps(process: str) -> Iterator[Finding]:
    if process:
        yield Finding(
            "mps",
            process,
            "MPS runs on a node that has vGPUs",
            "all its clients are one process to the driver: neither memory nor time can be told "
            "apart",
            "echo quit | nvidia-cuda-mps-control, and keep MPS off this node",
        )


def _unplanned(layout: NodeLayout, machine: Machine) -> Iterator[Finding]:
    planned = {gpu.minor for gpu in layout.gpus}
    for gpu in machine.gpus:
        if gpu.minor not in planned:
            yield Finding(
                "gpu-unplanned",
                _where(gpu.minor),
                f"{gpu.product} that the plan does not have",
                "it is left out of Slurm, and idle",
                "add it to the plan",
            )


def _links(layout: NodeLayout, machine: Machine) -> Iterator[Finding]:
    """Links are compared where there is more than one GPU to link."""
    both = {gpu.minor for gpu in layout.gpus} & {gpu.minor for gpu in machine.gpus}
    wanted, found = layout.nvlink, machine.nvlink
    if len(both) < 2 or wanted == found:
        return
    pairs = {(a, b): n for a, b, n in wanted.pairs if {a, b} <= both}
    there = {(a, b): n for a, b, n in found.pairs if {a, b} <= both}
    if (wanted.switch, pairs) == (found.switch, there):
        return
    yield Finding(
        "nvlink",
        "NVLink",
        _pairs(wanted.switch, pairs, found.switch, there),
        "features of the node and Links= of its whole GPUs promise what is not there",
        "correct nvlink: in the plan (vgpu config init shows what is there)",
    )


def _pairs(
    switch: bool,
    wanted: dict[tuple[int, int], int],
    there_is_switch: bool,
    found: dict[tuple[int, int], int],
) -> str:
    if switch != there_is_switch:
        return "the plan has {} where there is {}".format(
            *("an NVSwitch" if has else "no NVSwitch" for has in (switch, there_is_switch))
        )
    a, b = next(p for p in sorted(wanted | found) if wanted.get(p, 0) != found.get(p, 0))
    return (
        f"GPUs {a} and {b} have {found.get((a, b), 0)} links where the plan has "
        f"{wanted.get((a, b), 0)}"
    )
