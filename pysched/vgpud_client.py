"""Talks to vgpud, as root, over the socket in its runtime folder.

    for binding in Vgpud(Path("/run/vgpu")).bindings():
        print(binding.job, binding.vgpu.gpu, binding.charged)

The messages are those of spank/proto/wire.h; the tables below repeat its structs field by field,
and a unit test compares the two.
"""

import ctypes
import os
import socket
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pysched import paths

MAGIC = 0x55504756
MAJOR, MINOR = 1, 0

MAX_SLOTS = 1024
MAX_GPUS = 32
_TYPE = ctypes.c_char * 64
_NAME = ctypes.c_char * 64
_PATH = ctypes.c_char * 256
_ERROR = ctypes.c_char * 320
_MAX_FDS = 2 * MAX_GPUS

BIND, UNBIND_STEP, UNBIND_JOB, LIST, POLICY = range(1, 6)
OK, NOT_FOUND = 0, 3
AFFINITIES = ("none", "prefer_nvlink", "require_nvlink", "same_numa")
COLOCATE = 1 << 0
UNKNOWN = (1 << 64) - 1  # of a number of bytes

_u8, _u16, _u32, _u64 = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64
_Message = TypeVar("_Message", bound=ctypes.Structure)


class Head(ctypes.Structure):
    _fields_ = [
        ("magic", _u32),
        ("major", _u16),
        ("minor", _u16),
        ("type", _u16),
        ("reserved", _u16),
        ("length", _u32),
    ]


class Desc(ctypes.Structure):
    _fields_ = [
        ("id", _u64),
        ("quota", _u64),
        ("uuid", _u8 * 16),
        ("gpu", _u32),
        ("gpu_sms", _u32),
        ("sms", _u32),
        ("max_sms", _u32),
        ("slot", _u32),
        ("n_slots", _u32),
        ("type", _TYPE),
        ("pci", ctypes.c_char * 32),
    ]


class BindRequest(ctypes.Structure):
    _fields_ = [
        ("head", Head),
        ("job", _u32),
        ("step", _u32),
        ("uid", _u32),
        ("holder", ctypes.c_int32),
        ("flags", _u32),
        ("affinity", _u32),
        ("n_slots", _u32),
        ("slots", _u16 * MAX_SLOTS),
        ("n_advice", _u32),
        ("advice", _u16 * MAX_GPUS),
        ("slice_us", _u32),
        ("workload", _NAME),
        ("burst_class", _NAME),
    ]


class BindReply(ctypes.Structure):
    _fields_ = [
        ("head", Head),
        ("status", _u32),
        ("error", _ERROR),
        ("step_dir", _PATH),
        ("advised", _u32),
        ("n_vgpus", _u32),
        ("vgpus", Desc * MAX_GPUS),
    ]


class UnbindRequest(ctypes.Structure):
    _fields_ = [("head", Head), ("job", _u32), ("step", _u32)]


class StatusReply(ctypes.Structure):
    _fields_ = [("head", Head), ("status", _u32), ("error", _ERROR)]


class ListRequest(ctypes.Structure):
    _fields_ = [("head", Head), ("after", _u64)]


class ListReply(ctypes.Structure):
    _fields_ = [
        ("head", Head),
        ("status", _u32),
        ("error", _ERROR),
        ("vgpu", Desc),
        ("job", _u32),
        ("uid", _u32),
        ("steps", _u32),
        ("processes", _u32),
        ("charged", _u64),
        ("driver", _u64),
        ("peak", _u64),
        ("refusals", _u64),
        ("launches", _u64),
        ("entitled_ns", _u64),
        ("used_ns", _u64),
        ("waited_ns", _u64),
        ("overrun_ns", _u64),
        ("switches", _u64),
        ("slice_us", _u32),
        ("reserved", _u32),
        ("workload", _NAME),
        ("burst_class", _NAME),
    ]


class PolicyRequest(ctypes.Structure):
    _fields_ = [
        ("head", Head),
        ("job", _u32),
        ("slice_us", _u32),
        ("max_sms", _u32),
        ("workload", _NAME),
        ("burst_class", _NAME),
    ]


class VgpudError(Exception):
    """One sentence: vgpud's own, or that it does not answer."""


@dataclass(frozen=True, slots=True)
class Vgpu:
    """A slice of a GPU as bound."""

    id: int
    quota: int  # bytes
    gpu_uuid: str  # as NVML writes it
    gpu: int  # minor number
    gpu_sms: int
    sms: int
    max_sms: int
    slot: int
    slots: int
    type: str
    pci: str


@dataclass(frozen=True, slots=True)
class Binding:
    """A vGPU that a job holds, and what it has used."""

    vgpu: Vgpu
    job: int
    uid: int
    steps: int
    processes: int
    charged: int  # bytes, by the shim's account
    driver: int | None  # bytes, by NVML
    peak: int
    refusals: int
    launches: int
    entitled_ns: int
    used_ns: int
    waited_ns: int
    overrun_ns: int
    switches: int
    slice_us: int
    workload: str
    burst_class: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """What a step got. The caller closes the account descriptors when the step has ended."""

    folder: Path  # holds attach.sock, and the preload file that the binder writes
    vgpus: tuple[Vgpu, ...]  # in rank order
    accounts: tuple[int, ...]
    advised: bool


class Vgpud:
    """A node's vgpud. Every call is one connection, so that a restart in between is not noticed."""

    def __init__(self, runtime_dir: Path = paths.RUNTIME_DIR, timeout: float = 5.0) -> None:
        self._path = runtime_dir / "vgpud.sock"
        self._timeout = timeout

    def bind(
        self,
        job: int,
        step: int,
        uid: int,
        slots: Sequence[int],
        *,
        colocate: bool = False,
        affinity: str = "none",
        advice: Sequence[int] = (),
    ) -> Step:
        """Bind the slots for a step; ``advice`` is GPUs in rank order."""
        request = BindRequest(
            job=job, step=step, uid=uid, holder=0, flags=COLOCATE if colocate else 0,
            affinity=AFFINITIES.index(affinity), n_slots=len(slots), n_advice=len(advice),
        )  # fmt: skip
        request.slots[: len(slots)] = list(slots)
        request.advice[: len(advice)] = list(advice)
        reply, accounts = self._ask(BIND, request, BindReply)
        if reply.status != OK:
            _close(accounts)
            raise _refusal(reply)
        vgpus = tuple(_vgpu(desc) for desc in reply.vgpus[: reply.n_vgpus])
        return Step(Path(_text(reply.step_dir)), vgpus, tuple(accounts), bool(reply.advised))

    def unbind_step(self, job: int, step: int) -> None:
        self._tell(UNBIND_STEP, UnbindRequest(job=job, step=step))

    def unbind_job(self, job: int) -> None:
        self._tell(UNBIND_JOB, UnbindRequest(job=job))

    def set_policy(
        self,
        job: int,
        *,
        slice_us: int = 0,
        max_sms: int = 0,
        workload: str = "",
        burst_class: str = "",
    ) -> None:
        """Change how the job's vGPUs share GPU time; 0 and "" leave a thing as it is."""
        request = PolicyRequest(
            job=job, slice_us=slice_us, max_sms=max_sms,
            workload=workload.encode(), burst_class=burst_class.encode(),
        )  # fmt: skip
        self._tell(POLICY, request)

    def bindings(self) -> Iterator[Binding]:
        """All vGPUs that are bound, in the order of their binding."""
        after = 0
        while True:
            reply, _ = self._ask(LIST, ListRequest(after=after), ListReply)
            if reply.status == NOT_FOUND:
                return
            if reply.status != OK:
                raise _refusal(reply)
            binding = _binding(reply)
            after = binding.vgpu.id
            yield binding

    def _tell(self, kind: int, request: ctypes.Structure) -> None:
        reply, _ = self._ask(kind, request, StatusReply)
        if reply.status != OK:
            raise _refusal(reply)

    def _ask(
        self, kind: int, request: ctypes.Structure, answer: type[_Message]
    ) -> tuple[Any, list[int]]:
        """The reply and the descriptors that came with it."""
        size = ctypes.sizeof(request)
        setattr(request, "head", Head(MAGIC, MAJOR, MINOR, kind, 0, size))  # noqa: B010
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(self._timeout)
            try:
                connection.connect(str(self._path))
                connection.send(bytes(request))
                data, accounts, _, _ = socket.recv_fds(connection, 1 << 16, _MAX_FDS)
            except OSError as error:
                reason = "no answer" if isinstance(error, TimeoutError) else error.strerror
                raise VgpudError(f"vgpud does not answer at {self._path}: {reason}") from None
        return self._checked(data, accounts, kind, answer), accounts

    def _checked(
        self, data: bytes, accounts: list[int], kind: int, answer: type[_Message]
    ) -> _Message:
        """The message that the bytes are. A shorter, older one is completed with zeros."""
        reply = answer.from_buffer_copy(data.ljust(ctypes.sizeof(answer), b"\0"))
        head: Head = getattr(reply, "head")  # noqa: B009
        if (head.magic, head.major, head.type, head.length) == (MAGIC, MAJOR, kind, len(data)):
            return reply
        _close(accounts)
        raise VgpudError(
            f"vgpud at {self._path} answers with something else than protocol version {MAJOR}: "
            "the command and vgpud are of different releases"
        )


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _refusal(reply: Any) -> VgpudError:
    return VgpudError(_text(reply.error))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _vgpu(desc: Any) -> Vgpu:
    return Vgpu(
        id=desc.id,
        quota=desc.quota,
        gpu_uuid=f"GPU-{uuid.UUID(bytes=bytes(desc.uuid))}",
        gpu=desc.gpu,
        gpu_sms=desc.gpu_sms,
        sms=desc.sms,
        max_sms=desc.max_sms,
        slot=desc.slot,
        slots=desc.n_slots,
        type=_text(desc.type),
        pci=_text(desc.pci),
    )


def _binding(reply: Any) -> Binding:
    return Binding(
        vgpu=_vgpu(reply.vgpu),
        job=reply.job,
        uid=reply.uid,
        steps=reply.steps,
        processes=reply.processes,
        charged=reply.charged,
        driver=None if reply.driver == UNKNOWN else reply.driver,
        peak=reply.peak,
        refusals=reply.refusals,
        launches=reply.launches,
        entitled_ns=reply.entitled_ns,
        used_ns=reply.used_ns,
        waited_ns=reply.waited_ns,
        overrun_ns=reply.overrun_ns,
        switches=reply.switches,
        slice_us=reply.slice_us,
        workload=_text(reply.workload),
        burst_class=_text(reply.burst_class),
    )
