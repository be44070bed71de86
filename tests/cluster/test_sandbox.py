"""A sandbox gives a command a machine of its own and takes all of it away again."""

import os
import pty
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GPUSIM = ROOT / "tests" / "gpusim" / "gpusim"
MINICLUSTER = ROOT / "tests" / "cluster" / "minicluster"

# Every folder in which a command may leave something.
CGROUPS = Path("/sys/fs/cgroup")
WRITABLE = ("/usr/bin", "/etc", "/opt", "/run", "/tmp", "/var", "/home", "/dev", "/dev/shm")


def gpusim(
    *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run `gpusim run` with these arguments to its end."""
    return subprocess.run(
        [GPUSIM, "run", *arguments],
        input=stdin, env=env, cwd=cwd, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


class Traces:
    """What is left on the machine of the sandboxes that a test has started."""

    def __init__(self) -> None:
        self.mark = f"mark-{uuid.uuid4()}"
        self.env = {**os.environ, "SANDBOX_MARK": self.mark}
        self._mounts_before = _mounts()
        self._noted: set[Process] = set()
        self._cgroups: set[str] = set()

    def note(self, runner: int) -> None:
        """Take down what belongs to a runner that is under way: its own environment does not
        reach daemons."""
        init = Path(f"/proc/{runner}/task/{runner}/children").read_text().split()[-1]
        inside = Path("/proc", init, "ns", "pid").readlink()
        self._noted |= {process for process in _processes() if process.namespace == inside}
        self._cgroups.add(f"slurm-vgpu-{runner}")

    def cgroups(self) -> list[str]:
        return [str(path) for name in self._cgroups for path in CGROUPS.glob(f"**/{name}")]

    def processes(self) -> list[str]:
        """Those that were noted, and those that have inherited the mark."""
        return [
            process.command
            for process in _processes()
            if process in self._noted or self.mark.encode() in process.environment
        ]

    def left(self) -> list[str]:
        files = [str(Path(folder, self.mark)) for folder in WRITABLE]
        mounts = _mounts() - self._mounts_before
        return [*self.processes(), *filter(os.path.exists, files), *mounts, *self.cgroups()]

    def assert_none(self) -> None:
        """Now, or as soon as the kernel has finished killing."""
        deadline = time.monotonic() + 10
        while (left := self.left()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert left == []


@dataclass(frozen=True)
class Process:
    pid: int
    started: str  # since boot; tells it from a later one with the same pid
    namespace: Path = field(compare=False)
    environment: bytes = field(compare=False)
    command: str = field(compare=False)


def _processes() -> Iterator[Process]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            yield Process(
                pid=int(folder.name),
                started=(folder / "stat").read_text().rpartition(")")[2].split()[19],
                namespace=(folder / "ns" / "pid").readlink(),
                environment=(folder / "environ").read_bytes(),
                command=(folder / "cmdline").read_bytes().decode().replace("\0", " "),
            )
        except OSError:  # it has just ended
            continue


def _mounts() -> set[str]:
    """What is mounted where a sandbox mounts something."""
    places = {*WRITABLE, "/usr", "/proc", "/sys/fs/cgroup", "/mnt"}
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line.split(maxsplit=2)[2] for line in lines if line.split()[4] in places}


# Fills every folder, and leaves processes that ignore signals and have left the session.
LITTER = f"""
for folder in {" ".join(WRITABLE)}; do touch "$folder/$SANDBOX_MARK"; done
mount -t tmpfs "$SANDBOX_MARK" /mnt
setsid sh -c 'trap "" HUP TERM INT; sleep 1000' >/dev/null 2>&1 &
sleep 1000 >/dev/null 2>&1 &
"""


@pytest.fixture
def traces() -> Iterator[Traces]:
    traces = Traces()
    yield traces
    traces.assert_none()


# Whoever starts the tests in the background may have them ignore the signal.
HEEDING = ("env", "--default-signal=INT")


def started(command: list[str], traces: Traces) -> subprocess.Popen[str]:
    """Start a runner whose command prints a line when it is under way, and wait for that line."""
    process = subprocess.Popen(
        [*HEEDING, *command],
        env=traces.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    traces.note(process.pid)
    return process


def test_nothing_is_left_when_the_command_succeeds(traces: Traces) -> None:
    done = gpusim("--", "sh", "-c", LITTER + "ls /usr/bin/$SANDBOX_MARK", env=traces.env)
    assert (done.returncode, done.stdout) == (0, f"/usr/bin/{traces.mark}\n"), done.stderr


def test_nothing_is_left_when_the_command_fails(traces: Traces) -> None:
    assert gpusim("--", "sh", "-c", LITTER + "exit 3", env=traces.env).returncode == 3


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_when_the_runner_is_ended(number: int, traces: Traces) -> None:
    script = LITTER + "echo ready; exec sleep 1000"
    process = started([str(GPUSIM), "run", "--", "sh", "-c", script], traces)
    process.send_signal(number)
    assert process.wait(30) in (-number, 128 + number)
    traces.assert_none()


@pytest.mark.parametrize("runner", [GPUSIM, MINICLUSTER], ids=lambda path: path.name)
def test_ctrl_c_takes_all_down_without_a_word(runner: Path, traces: Traces) -> None:
    terminal, ours = pty.openpty()
    command = [str(runner), "run", "--", "sh", "-c", LITTER + "echo ready; exec sleep 1000"]
    process = subprocess.Popen(
        [*HEEDING, "setsid", "--ctty", *command],
        env=traces.env,
        stdin=ours,
        stdout=ours,
        stderr=ours,
    )
    os.close(ours)
    assert os.read(terminal, 100) == b"ready\r\n"
    traces.note(process.pid)
    os.write(terminal, b"\x03")
    assert process.wait(30) == 128 + signal.SIGINT
    assert os.read(terminal, 100) == b"^C"
    os.close(terminal)
    traces.assert_none()


def test_nothing_is_left_of_a_cluster_whose_runner_is_killed(traces: Traces) -> None:
    script = LITTER + "srun true; echo ready; cat"
    process = started([str(MINICLUSTER), "run", "--cgroup", "--", "sh", "-c", script], traces)
    assert any("slurmd" in command for command in traces.processes())
    assert traces.cgroups()
    process.kill()
    process.wait(30)
    traces.assert_none()


def test_cgroups_are_gone_when_the_runner_has_ended(traces: Traces) -> None:
    options = ["--cgroup", "--nodes=1", "--plan=none"]
    process = started(
        [str(MINICLUSTER), "run", *options, "--", "sh", "-c", "echo ready; cat"], traces
    )
    assert traces.cgroups()
    process.communicate(timeout=30)
    assert traces.cgroups() == []


def test_a_command_that_does_not_end_when_asked_is_killed(traces: Traces) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 1; done"
    process = started([str(GPUSIM), "run", "--", "sh", "-c", script], traces)
    process.terminate()
    assert process.wait(30) == 128 + signal.SIGKILL


def test_two_clusters_side_by_side_do_not_meet(traces: Traces) -> None:
    script = "hostname >/tmp/mine; touch /run/gpusim/mine; echo ready; read line; sinfo -h -o %D"
    command = [str(MINICLUSTER), "run", "--nodes", "1", "--", "sh", "-c", script]
    first = started(command, traces)
    second = started([*command[:-1], "ls /tmp/mine /run/gpusim/mine; echo ready; cat"], traces)
    assert first.communicate("go on\n", timeout=30)[0] == "1\n"
    assert (first.returncode, second.communicate(timeout=30)[0]) == (0, "")


def test_the_second_of_two_sandboxes_does_not_see_the_first(traces: Traces) -> None:
    first = started([str(GPUSIM), "run", "--", "sh", "-c", LITTER + "echo ready; cat"], traces)
    script = "ls /tmp /home/*; ps -A -o comm=; cat /proc/net/tcp | wc -l; ls /dev/shm"
    seen = gpusim("--", "sh", "-c", script).stdout
    assert traces.mark not in seen
    assert "sleep" not in seen
    first.communicate()


@pytest.mark.parametrize("code", [0, 1, 77, 255])
def test_the_exit_code_is_the_commands(code: int) -> None:
    assert gpusim("--", "sh", "-c", f"exit {code}").returncode == code


def test_a_command_that_dies_of_a_signal_is_told_as_a_shell_does() -> None:
    assert gpusim("--", "sh", "-c", "kill -KILL $$").returncode == 137


def test_a_command_that_is_not_there_is_told_as_a_shell_does() -> None:
    done = gpusim("--", "no-such-command")
    assert (done.returncode, done.stderr) == (
        127,
        "cannot run 'no-such-command': No such file or directory\n",
    )


def test_the_standard_streams_are_the_callers() -> None:
    done = gpusim("--", "sh", "-c", "cat; echo err >&2", stdin="in")
    assert (done.stdout, done.stderr) == ("in", "err\n")


def test_a_command_runs_as_a_user_in_the_users_home_if_it_cannot_stay(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    done = gpusim("--user", "alice", "--", "sh", "-c", "id -un; pwd; echo $HOME", cwd=tmp_path)
    assert done.stdout.split() == ["alice", "/home/alice", "/home/alice"]


def test_the_working_folder_stays_reachable_and_writable(tmp_path: Path) -> None:
    done = gpusim("--", "sh", "-c", 'pwd; echo kept >"$PWD/file"', cwd=tmp_path)
    assert done.stdout == f"{tmp_path}\n"
    assert (tmp_path / "file").read_text() == "kept\n"


def test_a_user_reaches_the_packages_wherever_the_checkout_lies() -> None:
    script = "import cuda.bindings.driver, pynvml; print('both')"
    python = "/opt/slurm-vgpu/venv/bin/python"
    done = gpusim("--user", "bob", "--", python, "-c", script)
    assert done.stdout == "both\n", done.stderr
    done = gpusim("--user", "bob", "--", "test", "-r", "/opt/slurm-vgpu/src/README.md")
    assert done.returncode == 0


def test_the_network_is_the_loopback_alone() -> None:
    seen = gpusim("--", "cat", "/proc/net/dev").stdout.splitlines()[2:]
    assert [line.split(":")[0].strip() for line in seen] == ["lo"]


SENTENCE = (
    "needs root and the right to mount, to make a machine of its own: start it with sudo, or in a "
    "container that has CAP_SYS_ADMIN\n"
)
# nobody, who may read whatever the checkout's folders forbid; root without the right to mount
UNPRIVILEGED = {
    "nobody": "--reuid=nobody --clear-groups --inh-caps=+dac_read_search"
    " --ambient-caps=+dac_read_search",
    "root that may not mount": "--bounding-set=-sys_admin --inh-caps=-sys_admin",
}


@pytest.mark.parametrize("who", UNPRIVILEGED)
@pytest.mark.parametrize("runner", [GPUSIM, MINICLUSTER], ids=lambda path: path.name)
def test_without_the_right_to_mount_one_sentence_says_what_is_needed(
    who: str, runner: Path
) -> None:
    command = ["setpriv", *UNPRIVILEGED[who].split(), str(runner), "run", "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{runner.name}: {SENTENCE}")


def test_the_callers_umask_is_the_commands_alone() -> None:
    script = (
        "umask; /opt/slurm-vgpu/src/tests/gpusim/gpusim stat >/dev/null; vgpu --version >/dev/null"
    )
    command = ["sh", "-c", f"umask 077; exec {GPUSIM} run --user alice -- sh -c '{script}'"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0077\n", "")


WRONG: dict[str, tuple[list[str], str]] = {
    "a machine that is not there": (["--machine", "no-such"], "give a path with a '/' or one of:"),
    "a file that is no machine": (["--machine", str(ROOT / "README.md")], "cannot be read"),
    "a user that is not there": (["--user", "nobody-there"], "invalid choice: 'nobody-there'"),
    "a size without its unit": (["--vgpu", "4"], "MEM[,GUARANTEED/MAX] such as 4GiB,15/30"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_option_is_told_with_exit_code_2(what: str) -> None:
    options, wanted = WRONG[what]
    done = gpusim(*options, "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert wanted in done.stderr
    assert "Traceback" not in done.stderr
