"""Several tenants on one simulated GPU, each a job of its own.

Each has a vGPU, or another preloaded library, or nothing between its programs and the driver.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pysched import paths
from pysched.vgpud_client import Step, Vgpud
from tests.sandbox import gpus, processes, vgpus
from tests.sandbox.paths import BUILD, SOURCE
from tests.sandbox.runner import Sandbox

# As they are called inside, wherever the checkout is.
PROGRAMS = SOURCE / "build" / "gpusim" / "programs"
STAT = SOURCE / "build" / "gpusim" / "gpusim-stat"
MS = 1_000_000
FIRST_JOB = 100


@dataclass(frozen=True)
class Tenant:
    """One job: its share of the card and the programs that it runs side by side."""

    sms: float
    commands: Sequence[Sequence[str]]
    max_sms: float | None = None
    slice_ms: int = 10
    memory: str = "4GiB"  # a context of each process has to fit
    extra: str = ""  # more keys of the Type line


@dataclass(frozen=True)
class Shim:
    """What stands between programs and the driver: ours, another library, or nothing."""

    name: str = "vgpu"
    preload: str = ""
    env: Mapping[str, str] = field(default_factory=dict)


OURS, NONE = Shim(), Shim("none")


@dataclass(frozen=True)
class Sample:
    """Busy time of the card, ns, by tenant, at one moment (ns of CLOCK_MONOTONIC)."""

    at: int
    busy: tuple[int, ...]


def machine_text(sms: int) -> str:
    """A machine file of one card with so many SMs."""
    return f'machine=bench\ngpu=0 name="simulated" memory=40GiB sms={sms} cc=8.0 pci=0000:3B:00.0\n'


def run(
    tenants: Sequence[Tenant],
    body: Callable[["Tenants"], Any],
    *,
    sms: int = 108,
    shim: Shim = OURS,
    conf: str = "",
) -> Any:
    """Start the tenants on a card with so many SMs, and return what body, called inside, returns.

    The answer comes through JSON. ``conf`` is more lines for vgpu.conf.
    """
    reader, writer = os.pipe()
    file = BUILD / f"bench-{os.getpid()}.machine"
    file.write_text(machine_text(sms))
    try:
        machine = gpus.read_machine(str(file))

        def inside() -> int:
            os.close(reader)
            with Tenants(machine, tenants, sms, shim, conf) as running:
                answer = body(running)
            os.write(writer, json.dumps(answer).encode())
            return 0

        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = Sandbox("bench", machine).run(inside)
            finally:
                os._exit(code)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            text = pipe.read()
        os.waitpid(pid, 0)
    finally:
        file.unlink(missing_ok=True)
    if not text:
        raise RuntimeError("the tenants could not be run: see above")
    return json.loads(text)


class Tenants:
    """Running tenants, seen from inside the sandbox."""

    def __init__(
        self, machine: gpus.Machine, tenants: Sequence[Tenant], sms: int, shim: Shim, conf: str = ""
    ) -> None:
        self._machine, self._tenants, self._sms, self._shim = machine, tenants, sms, shim
        self._more_conf = conf
        self._steps: list[Step] = []
        self.pids: list[list[int]] = [[] for _ in tenants]
        self.daemon: Any = None

    def __enter__(self) -> "Tenants":
        if self._shim.name == "vgpu":
            self._start_vgpud()
        for index, tenant in enumerate(self._tenants):
            self.start(index, tenant.commands)
        return self

    def __exit__(self, *exception: object) -> None:
        for pid in self.all_pids():
            with suppress(ProcessLookupError):
                os.kill(pid, 9)

    def all_pids(self) -> list[int]:
        """Of every program that was started."""
        return [pid for pids in self.pids for pid in pids]

    def _conf(self) -> str:
        lines = ["Version=1", *self._more_conf.splitlines()]
        for index, t in enumerate(self._tenants):
            limit = round(t.max_sms or self._sms)
            lines.append(
                f"Type=v{index} Memory={t.memory} SMs={round(t.sms)} MaxSMs={limit} "
                f"Slice={t.slice_ms}ms {t.extra}"
            )
        lines.append(f"Node={vgpus.NODE} GPU=0 Memory=40GiB SMs={self._sms}")
        lines += [f"Node={vgpus.NODE} Slot={i} Type=v{i} GPU=0" for i in range(len(self._tenants))]
        return "\n".join(lines) + "\n"

    def set_burst(self, index: int) -> None:
        """Put the tenant into the burst class "urgent", as the SPANK plugin does."""
        Vgpud().set_policy(FIRST_JOB + index, burst_class="urgent")

    def wait(self, index: int) -> None:
        """Until the tenant's programs have ended."""
        for pid in self.pids[index]:
            os.waitpid(pid, 0)

    def _start_vgpud(self) -> None:
        logs = Path("/run/bench-logs")
        logs.mkdir(parents=True)
        paths.VGPU_CONF.write_text(self._conf())
        self.daemon = vgpus.vgpud(vgpus.NODE, logs, paths.RUNTIME_DIR)
        self.daemon.start()
        for i in range(len(self._tenants)):
            self._steps.append(Vgpud().bind(FIRST_JOB + i, 0, 0, [i]))
            vgpus.lay_preload(self._steps[i])

    def start(self, index: int, commands: Sequence[Sequence[str]]) -> None:
        """Start programs as the tenant."""
        env = {**os.environ, **self._shim.env}
        if self._shim.preload:
            env["LD_PRELOAD"] = self._shim.preload
        for command in commands:
            self.pids[index].append(processes.fork(partial(self._execute, index, command, env)))

    def _execute(self, index: int, command: Sequence[str], env: Mapping[str, str]) -> int:
        if self._steps:
            return vgpus.task(self._machine, self._steps[index], command, env, None)
        return processes.execute(command, env, None)

    def sample(self) -> Sample:
        """What the simulator counted so far."""
        report = json.loads(subprocess.check_output([STAT, "--json"]))
        at = time.monotonic_ns()
        busy = {p["pid"]: p["busy_ns"] for gpu in report["gpus"] for p in gpu["processes"]}
        return Sample(at, tuple(sum(busy.get(pid, 0) for pid in pids) for pids in self.pids))

    def samples(self, seconds: float, every: float) -> list[Sample]:
        """Samples at absolute times."""
        start = time.monotonic()
        taken = [self.sample()]
        for step in range(1, round(seconds / every) + 1):
            time.sleep(max(0.0, start + step * every - time.monotonic()))
            taken.append(self.sample())
        return taken
