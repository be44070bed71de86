"""A running cluster, as tests use it: from outside, by entering its namespaces for each command."""

import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MINICLUSTER = ROOT / "tests" / "cluster" / "minicluster"
PROGRAMS = "/opt/slurm-vgpu/src/build/tests/programs"
PYTHON = "/opt/slurm-vgpu/venv/bin/python"

_PATH = f"{PROGRAMS}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_RUNNING = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED")
_POLL = 0.05


@dataclass(frozen=True)
class Job:
    """A job that has ended."""

    id: int
    state: str
    exit_code: int
    output: str  # standard output and error


class Held:
    """A cuprobe that waits between its actions."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.lines = self._until_wait()

    def go_on(self) -> list[dict[str, Any]]:
        """Let it do what comes next. Returns the lines up to where it waits again."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._until_wait()

    def _until_wait(self) -> list[dict[str, Any]]:
        assert self._process.stdout is not None
        found: list[dict[str, Any]] = []
        for line in map(json.loads, self._process.stdout):
            if line["action"] == "wait":
                return found
            found.append(line)
        _, err = self._process.communicate()
        raise AssertionError(f"cuprobe has ended: {err}")


class RunningCluster:
    """One `minicluster run`; its nodes are n1, n2, ... unless its plan says otherwise."""

    def __init__(self, *options: str, enter: Sequence[str] = ()) -> None:
        """Start it with these options of `minicluster run` and wait until jobs can run.

        ``enter`` is a command that runs another one where the cluster is to be.
        """
        runner = [*enter, str(MINICLUSTER)]
        command = [*runner, "run", *options, "--", "sh", "-c", "echo ready; exec cat"]
        self._runner = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._runner.stdout is not None
        if self._runner.stdout.readline() != "ready\n":
            raise RuntimeError(f"{shlex.join(map(str, command))}: {self._runner.communicate()[1]}")
        self._init = next(pid for pid in _children(self._runner.pid) if _is_elsewhere(pid))

    def close(self) -> None:
        """Take the cluster down: its command ends with its standard input."""
        self._runner.communicate()

    # --- commands ---------------------------------------------------------------------------------

    def run(
        self,
        *command: str,
        user: str | None = None,
        node: str | None = None,
        stdin: str = "",
        timeout: float = 60,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, as root or a user, in the cluster or on one of its nodes."""
        process = self.popen(*command, user=user, node=node, env=env)
        try:
            out, err = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError(
                f"{shlex.join(command)}: no end after {timeout} s\n{out}{err}"
            ) from None
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def popen(
        self,
        *command: str,
        user: str | None = None,
        node: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a command, with pipes, in a process group of its own."""
        return subprocess.Popen(
            [*self._enter(node), *_as_user(user, env or {}), *command],
            env={"PATH": _PATH}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def check(self, *command: str, **options: Any) -> str:
        """Run a command that has to succeed. Returns what it printed."""
        done = self.run(*command, **options)
        assert done.returncode == 0, (
            f"{shlex.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}"
        )
        return done.stdout

    def path(self, inside: str) -> Path:
        """A file of the cluster as it is reached from here."""
        return Path(f"/proc/{self._init}/root", inside.lstrip("/"))

    def _enter(self, node: str | None) -> list[str]:
        enter = ["nsenter", f"--target={self._init}", "--mount", "--pid", "--net", "--ipc", "--uts"]
        return [*enter, "nsenter", f"--mount=/run/minicluster/{node}/ns"] if node else enter

    # --- jobs -------------------------------------------------------------------------------------

    def submit(self, script: str, *options: str, user: str = "alice") -> int:
        """sbatch a shell script. Returns the job id."""
        output = (
            f"--output=/home/{user}/%A_%a.out"
            if _array(options)
            else f"--output=/home/{user}/%j.out"
        )
        text = script if script.startswith("#!") else f"#!/bin/bash\n{script}\n"
        printed = self.check("sbatch", "--parsable", output, *options, user=user, stdin=text)
        return int(printed)

    def wait(self, job: int, timeout: float = 60) -> Job:
        """Wait for the end of a job. A task of an array has an id of its own, too."""
        deadline = time.monotonic() + timeout
        while (fields := self.job(job))["JobState"] in _RUNNING:
            assert time.monotonic() < deadline, f"job {job} has not ended: {fields}"
            time.sleep(_POLL)
        output = self.path(fields["StdOut"])
        text = output.read_text() if output.exists() else ""
        return Job(job, fields["JobState"], int(fields["ExitCode"].split(":")[0]), text)

    def sbatch(self, script: str, *options: str, user: str = "alice", timeout: float = 60) -> Job:
        """Submit a shell script and wait for its end."""
        return self.wait(self.submit(script, *options, user=user), timeout)

    def srun(
        self, *arguments: str, user: str = "alice", **options: Any
    ) -> subprocess.CompletedProcess[str]:
        return self.run("srun", *arguments, user=user, **options)

    @contextmanager
    def holding(self, *actions: str, options: Sequence[str], user: str = "alice") -> Iterator[Held]:
        """A step in which cuprobe has done these actions up to the first `wait`, or all of them,
        and goes on when it is told to, or after the block."""
        process = self.popen("srun", *options, "cuprobe", *actions, "wait", user=user)
        try:
            yield Held(process)
            _, err = process.communicate("\n" * (len(actions) + 1), timeout=60)
            assert process.returncode == 0, err
        finally:
            process.kill()
            process.communicate()

    def job(self, job: int) -> dict[str, str]:
        """What `scontrol show job -d` says: key -> value."""
        printed = self.check("scontrol", "show", "job", "-d", "-o", str(job))
        return dict(re.findall(r"(\S+?)=(.*?)(?= \S+=|$)", printed.splitlines()[0]))

    def wait_for_state(self, job: int, state: str, timeout: float = 30) -> dict[str, str]:
        deadline = time.monotonic() + timeout
        while (fields := self.job(job))["JobState"] != state:
            assert time.monotonic() < deadline, f"job {job} is not {state}: {fields}"
            time.sleep(_POLL)
        return fields

    # --- nodes ------------------------------------------------------------------------------------

    def states(self) -> dict[str, str]:
        """Node -> state, e.g. idle, mixed, drained."""
        return dict(
            line.split() for line in self.check("sinfo", "-h", "-N", "-o", "%N %T").splitlines()
        )

    def ctl(self, host: str, action: str, daemon: str) -> None:
        """start, stop, kill or restart a daemon of a node or of `controller`, and wait for it."""
        self.check("minicluster", "ctl", host, action, daemon)

    def log(self, host: str, daemon: str) -> str:
        return self.path(f"/run/minicluster/{host}/{daemon}.log").read_text(errors="replace")

    def vgpus(self, node: str) -> list[dict[str, Any]]:
        """What vgpud says: `vgpu ps --json` on the node."""
        printed = self.check("vgpu", "ps", "--json", "--runtime-dir", f"/run/vgpu/{node}")
        return list(json.loads(printed))

    def stat(self, node: str) -> dict[str, Any]:
        """What the simulated GPUs of the node say: `gpusim stat --json`."""
        return dict(json.loads(self.check("gpusim", "stat", "--json", node=node)))

    def gpu(self, node: str, uuid: str) -> dict[str, Any]:
        """What the simulator says of one GPU: used, peak, processes ..."""
        return dict(next(gpu for gpu in self.stat(node)["gpus"] if gpu["uuid"] == uuid))

    def settle(self, timeout: float = 30) -> None:
        """End all jobs, and see that no node was hurt by them."""
        deadline = time.monotonic() + timeout
        while jobs := self.check("squeue", "-h", "-o", "%i").split():
            assert time.monotonic() < deadline, f"jobs that do not end: {jobs}"
            self.run("scancel", *jobs)
            time.sleep(_POLL)
        while set((states := self.states()).values()) != {"idle"}:
            assert time.monotonic() < deadline, states
            time.sleep(_POLL)


def lines(printed: str) -> list[dict[str, Any]]:
    """The lines of JSON in what a program printed, e.g. cuprobe's."""
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def _as_user(user: str | None, env: Mapping[str, str]) -> list[str]:
    """The command that runs another one with a user's identity, home and this environment."""
    name, home = user or "root", f"/home/{user}" if user else "/root"
    ours = {"PATH": _PATH, "HOME": home, "USER": name, "LOGNAME": name, "LANG": "C.UTF-8"}
    ours |= {"SHELL": "/bin/bash", "SLURM_CONF": "/etc/slurm/slurm.conf", **env}
    change = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
    words = [f"{key}={value}" for key, value in ours.items()]
    return [*change, "env", "-i", f"--chdir={home}", *words]


def _array(options: Sequence[str]) -> bool:
    return any(option.startswith(("--array", "-a")) for option in options)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_elsewhere(pid: int) -> bool:
    """Is the process in a PID namespace that is not ours? The sandbox's init is its first one."""
    return Path(f"/proc/{pid}/ns/pid").readlink() != Path("/proc/self/ns/pid").readlink()
