"""vGPUs without Slurm: vgpud, and a step's view of the node as the SPANK plugin makes it."""

import os
import pwd
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pysched import paths, sizes
from pysched.vgpud_client import Step, Vgpud, VgpudError
from tests.sandbox import kernel, processes
from tests.sandbox.daemon import Daemon, connects
from tests.sandbox.errors import SandboxError
from tests.sandbox.gpus import Machine
from tests.sandbox.paths import STEP_DIR

NODE = "gpusim"
_JOB, _STEP = 1, 0
_LOGS = Path("/run/gpusim-logs") / NODE
_PRELOAD = Path("/etc/ld.so.preload")
_SHIM = "/usr/$LIB/slurm-vgpu/libvgpu.so"


def vgpud(
    node: str, folder: Path, runtime_dir: Path, enter: Callable[[], None] | None = None
) -> Daemon:
    """The node's vgpud; its process id and log go to folder."""
    return Daemon(
        "vgpud",
        folder,
        ("vgpud", f"--node={node}", f"--conf={paths.VGPU_CONF}", f"--runtime-dir={runtime_dir}"),
        ready=lambda: connects(runtime_dir / "vgpud.sock", socket.SOCK_SEQPACKET),
        enter=enter,
    )


@dataclass(frozen=True)
class Share:
    """What --vgpu MEM[,GUARANTEED/MAX] asks for."""

    memory: str
    sms: int
    max_sms: int


def parse_share(text: str, machine: Machine) -> Share:
    """Without SMs a vGPU gets as large a part of them as of the memory, and all that are idle."""
    match = re.fullmatch(r"([^,]+)(?:,(\d{1,5})/(\d{1,5}))?", text)
    card = machine.gpus[0]
    try:
        if not match:
            raise ValueError(f'found "{text}"')
        share = card.sms * sizes.parse_size(match[1]) // sizes.parse_size(card.memory)
        return Share(match[1], int(match[2] or max(1, share)), int(match[3] or card.sms))
    except ValueError as error:
        raise SandboxError(
            f"--vgpu: MEM[,GUARANTEED/MAX] such as 4GiB,15/30 is expected: {error}"
        ) from None


def conf(machine: Machine, shares: Sequence[Share]) -> str:
    """vgpu.conf with one slot for each share, at home on one GPU after the other."""
    lines = ["Version=1"]
    for index, share in enumerate(shares):
        lines.append(f"Type=v{index} Memory={share.memory} SMs={share.sms} MaxSMs={share.max_sms}")
    for gpu in machine.gpus:
        lines.append(f"Node={NODE} GPU={gpu.minor} Memory={gpu.memory} SMs={gpu.sms}")
    for index in range(len(shares)):
        home = machine.minors[index % len(machine.gpus)]
        lines.append(f"Node={NODE} Slot={index} Type=v{index} GPU={home}")
    return "\n".join(lines) + "\n"


def _bind(machine: Machine, shares: Sequence[Share], uid: int) -> Step:
    """Start vgpud, let it bind the vGPUs, and complete the step's folder."""
    paths.VGPU_CONF.write_text(conf(machine, shares))
    _LOGS.mkdir(parents=True)
    vgpud(NODE, _LOGS, paths.RUNTIME_DIR).start()
    try:
        step = Vgpud().bind(_JOB, _STEP, uid, range(len(shares)))
    except VgpudError as error:
        raise SandboxError(str(error)) from None
    lay_preload(step)
    return step


def lay_preload(step: Step) -> None:
    """The preload file of a step that has been bound: the site's lines and the shim's."""
    (step.folder / _PRELOAD.name).write_text(f"{_PRELOAD.read_text()}{_SHIM}\n")


def run(
    machine: Machine,
    shares: Sequence[Share],
    command: Sequence[str],
    env: Mapping[str, str],
    user: str | None,
) -> int:
    """Run the command as a step that holds these vGPUs."""
    with kernel.umask(0o022):
        step = _bind(machine, shares, pwd.getpwnam(user).pw_uid if user else 0)
    env = {**env, "CUDA_VISIBLE_DEVICES": ",".join(vgpu.gpu_uuid for vgpu in step.vgpus)}
    processes.hold_signals()
    # This process holds the account descriptors, as slurmstepd does, while the command runs.
    return processes.wait(processes.fork(lambda: task(machine, step, command, env, user)))


def task(
    machine: Machine, step: Step, command: Sequence[str], env: Mapping[str, str], user: str | None
) -> int:
    """Become the command in the step's view of the node."""
    for descriptor in step.accounts:
        os.close(descriptor)
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.bind(step.folder, STEP_DIR)
    kernel.bind(step.folder / _PRELOAD.name, _PRELOAD)
    for minor in set(machine.minors) - {vgpu.gpu for vgpu in step.vgpus}:
        kernel.bind(paths.DATADIR / "covered", f"/dev/nvidia{minor}")
    return processes.execute(command, env, user)
