"""A vgpud of its own for a test, an NVML that says what the test wants, and processes that attach.

The vgpud is the one built with address and undefined-behaviour sanitizers; stop() asserts that it
found nothing.
"""

import contextlib
import ctypes
import mmap
import os
import pickle
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pysched import vgpud_client
from pysched.vgpud_client import MAGIC, MAJOR, MINOR, Head, Vgpud, VgpudError

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
GIB, MIB = 1 << 30, 1 << 20
ATTACH, MEASURE, STEP_FATE = 32, 33, 6
AGAIN = 1
OK, BAD_MESSAGE, BAD_VERSION, NOT_FOUND, NO_ROOM, REFUSED, TOO_MANY, UNAVAILABLE, FAILED = range(9)


class AttachRequest(ctypes.Structure):
    _fields_ = [("head", Head), ("flags", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


class AttachReply(ctypes.Structure):
    _fields_ = [
        ("head", Head),
        ("status", ctypes.c_uint32),
        ("error", ctypes.c_char * 320),
        ("job", ctypes.c_uint32),
        ("step", ctypes.c_uint32),
        ("n_vgpus", ctypes.c_uint32),
        ("vgpus", vgpud_client.Desc * 32),
        ("process", ctypes.c_uint32 * 32),
    ]


class MeasureRequest(ctypes.Structure):
    _fields_ = [("head", Head), ("vgpu_id", ctypes.c_uint64)]


class MeasureReply(ctypes.Structure):
    _fields_ = [
        ("head", Head),
        ("status", ctypes.c_uint32),
        ("error", ctypes.c_char * 320),
        ("driver", ctypes.c_uint64),
    ]


def message(kind: int, body: ctypes.Structure) -> bytes:
    head = Head(MAGIC, MAJOR, MINOR, kind, 0, ctypes.sizeof(body))
    setattr(body, "head", head)  # noqa: B010
    return bytes(body)


def eventually(claim: Callable[[], bool], seconds: float = 20.0) -> None:
    """The claim becomes true; how soon is for the benches to say."""
    deadline = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < deadline, "not true in time"
        time.sleep(0.005)


def uuid_of(gpu: int) -> str:
    return f"GPU-00000000-0000-0000-0000-{gpu:012x}"


def conf_text(gpus: int = 2, slots: int = 8, extra: str = "", uuids: bool = True) -> str:
    """Slots of 1 GiB and 10 SMs on GPUs of 8 GiB, dealt out in turn."""
    lines = ["Version=1", extra, "Type=t Memory=1GiB SMs=10 MaxSMs=20"]
    for gpu in range(gpus):
        uuid = f" UUID={uuid_of(gpu)}" if uuids else ""
        lines.append(f"Node=n1 GPU={gpu} Memory=8GiB SMs=100{uuid}")
    homes = ",".join(str(gpu) for gpu in range(gpus))
    lines.append(f"Node=n1 Slot=0-{slots - 1} Type=t GPU={homes}")
    return "\n".join(lines) + "\n"


@dataclass
class Node:
    folder: Path
    conf: str = field(default_factory=conf_text)
    nvml: bool = True
    gpus: int = 2
    program: str = "asan/vgpud"
    prefix: Sequence[str] = ()  # what the program is started by
    daemon: subprocess.Popen[bytes] | None = None

    @property
    def runtime_dir(self) -> Path:
        return self.folder / "run"

    @property
    def client(self) -> Vgpud:
        return Vgpud(self.runtime_dir, timeout=20)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def command(self, *options: str) -> list[str]:
        conf = self.folder / "vgpu.conf"
        conf.write_text(self.conf)
        return [
            *self.prefix,
            str(BUILD / self.program),
            *("--conf", str(conf), "--node", "n1", "--runtime-dir", str(self.runtime_dir)),
            *options,
        ]

    def environment(self) -> dict[str, str]:
        env = {**os.environ, "FAKE_NVML": str(self.folder / "nvml")}
        if self.nvml:
            env["LD_LIBRARY_PATH"] = str(BUILD / "tests/unit/nvml")
        return env

    def start(self) -> None:
        nvml = self.folder / "nvml"
        if not nvml.exists():
            nvml.mkdir()
            lines = [f"{i} {uuid_of(i)} 0000{i:04x}:01:00.0 {8 * GIB}\n" for i in range(self.gpus)]
            (nvml / "gpus").write_text("".join(lines))
        with (self.folder / "log").open("ab") as log:
            self.daemon = subprocess.Popen(self.command(), env=self.environment(), stderr=log)
        eventually(self._answers)

    def _answers(self) -> bool:
        assert self.daemon and self.daemon.poll() is None, self.log
        with contextlib.suppress(VgpudError):
            list(self.client.bindings())
            return True
        return False

    def kill(self) -> None:
        """kill -9, as sudden as it gets."""
        assert self.daemon
        self.daemon.kill()
        self.daemon.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def stop(self) -> None:
        if self.daemon and self.daemon.poll() is None:
            self.daemon.terminate()
            assert self.daemon.wait(timeout=30) == 0, self.log
            assert "Sanitizer" not in self.log, self.log

    def driver_lists(self, gpu: int, processes: Mapping[int, int], kind: str = "processes") -> None:
        """From now on NVML says that these pids hold so many bytes."""
        path = self.folder / "nvml" / f"{kind}.{gpu}"
        path.with_suffix(".new").write_text("".join(f"{p} {b}\n" for p, b in processes.items()))
        path.with_suffix(".new").rename(path)

    def charged(self, index: int = 0) -> int:
        return list(self.client.bindings())[index].charged

    def processes(self, index: int = 0) -> int:
        return list(self.client.bindings())[index].processes

    def fate(self, job: int, step: int) -> tuple[int, str]:
        with self.root() as connection:
            request = vgpud_client.UnbindRequest(job=job, step=step)
            connection.send(message(STEP_FATE, request))
            reply = vgpud_client.StatusReply.from_buffer_copy(connection.recv(4096))
        return reply.status, reply.error.decode()

    def root(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(20)
        connection.connect(str(self.runtime_dir / "vgpud.sock"))
        return connection


@contextlib.contextmanager
def running_node(**options: Any) -> Iterator[Node]:
    # Not below pytest's own folders: the path of a socket may have 107 bytes.
    node = Node(Path(tempfile.mkdtemp(prefix="vgpu-")), **options)
    try:
        node.start()
        yield node
        node.stop()
    finally:
        if node.daemon and node.daemon.poll() is None:
            node.kill()
        shutil.rmtree(node.folder, ignore_errors=True)


# Offsets of spank/proto/pages.h.
_CHARGED, _PROCESSES, _PROCESS_SIZE = 64, 128, 128
_QUOTA, _FLAGS, _CONTEXT = 16, 52, 64


class Program:
    """What a process does, called by name. It keeps its connection and pages."""

    def __init__(self) -> None:
        self.connection: socket.socket | None = None
        self.controls: list[mmap.mmap] = []
        self.accounts: list[mmap.mmap] = []
        self.descriptors: list[int] = []
        self.entries: list[int] = []

    def attach(self, folder: Path, flags: int = 0) -> tuple[int, str]:
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.connection.connect(str(folder / "attach.sock"))
        self.connection.send(message(ATTACH, AttachRequest(flags=flags)))
        data, fds, _, _ = socket.recv_fds(self.connection, 1 << 16, 64)
        reply = AttachReply.from_buffer_copy(data.ljust(ctypes.sizeof(AttachReply), b"\0"))
        self.descriptors = fds
        self.controls = [mmap.mmap(fd, 4096, prot=mmap.PROT_READ) for fd in fds[::2]]
        self.accounts = [mmap.mmap(fd, 0) for fd in fds[1::2]]
        self.entries = list(reply.process[: reply.n_vgpus])
        return reply.status, reply.error.decode()

    def charge(self, rank: int, size: int) -> None:
        """As the shim does (proto/pages.h), for one thread; negative: release."""
        account, entry = self.accounts[rank], _PROCESSES + self.entries[rank] * _PROCESS_SIZE
        for offset in (_CHARGED, entry + 8, entry + 16):
            (bytes_now,) = struct.unpack_from("Q", account, offset)
            struct.pack_into("Q", account, offset, bytes_now + size)

    def be_busy(self, rank: int, busy: int) -> None:
        struct.pack_into(
            "I", self.accounts[rank], _PROCESSES + self.entries[rank] * _PROCESS_SIZE, busy
        )

    def scribble(self) -> None:
        for account in self.accounts:
            account[:] = b"\xff" * len(account)

    def word(self, name: str, rank: int = 0) -> int:
        offset = {"quota": _QUOTA, "context_bytes": _CONTEXT}[name]
        return int(struct.unpack_from("Q", self.controls[rank], offset)[0])

    def ended(self, rank: int = 0) -> bool:
        return bool(struct.unpack_from("I", self.controls[rank], _FLAGS)[0] & 1)

    def account_charged(self, rank: int = 0) -> int:
        return int(struct.unpack_from("Q", self.accounts[rank], _CHARGED)[0])

    def measure(self, vgpu_id: int) -> tuple[int, str, int]:
        assert self.connection
        self.connection.send(message(MEASURE, MeasureRequest(vgpu_id=vgpu_id)))
        data = self.connection.recv(4096).ljust(ctypes.sizeof(MeasureReply), b"\0")
        reply = MeasureReply.from_buffer_copy(data)
        return reply.status, reply.error.decode(), reply.driver

    def disconnect(self) -> None:
        assert self.connection
        self.connection.close()
        self.connection = None

    def bind(self, runtime_dir: Path, job: int, step: int, slots: list[int]) -> Path:
        """As slurmstepd does: this process holds the account descriptors."""
        return Vgpud(runtime_dir).bind(job, step, 0, slots).folder

    def fork(self) -> int:
        """A child that does nothing but live as long as its parent."""
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(KeyboardInterrupt):
                while os.getppid() != 1:
                    time.sleep(0.05)
            os._exit(0)
        return pid

    def write_control(self) -> str:
        """Try to get at the control page for writing; as another user if we are root."""
        if os.geteuid() == 0:
            os.setuid(65534)
        attempts = [
            lambda: os.write(self.descriptors[0], b"x"),
            lambda: os.close(os.open(f"/proc/self/fd/{self.descriptors[0]}", os.O_RDWR)),
            lambda: os.ftruncate(self.descriptors[1], 0),
        ]
        done = []
        for number, attempt in enumerate(attempts):
            with contextlib.suppress(OSError):
                attempt()
                done.append(str(number))
        return ",".join(done)


class Child:
    """A process of a step, which does as it is told."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            _serve(theirs)
        theirs.close()
        self._channel = ours
        self._channel.settimeout(30)
        self._reaped = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self._channel.send(pickle.dumps((name, arguments)))
            answer = pickle.loads(self._channel.recv(1 << 16))
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def exec(self) -> None:
        """Become another program, which sleeps."""
        self._channel.send(pickle.dumps(("exec", ())))
        eventually(lambda: Path(f"/proc/{self.pid}/comm").read_text() == "sleep\n")

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        if not self._reaped:
            self._reaped = True
            _, status = os.waitpid(self.pid, 0)
            self._channel.close()
            return os.waitstatus_to_exitcode(status)
        return 0

    def close(self) -> None:
        if not self._reaped:
            self.kill()


def _serve(channel: socket.socket) -> None:
    program = Program()
    try:
        while request := channel.recv(1 << 16):
            name, arguments = pickle.loads(request)
            if name == "exec":
                os.execvp("sleep", ["sleep", "1000"])
            try:
                answer = getattr(program, name)(*arguments)
            except Exception as error:  # it is the parent's to judge
                answer = error
            channel.send(pickle.dumps(answer))
    finally:
        os._exit(0)
