"""Start processes, wait for them, and pass signals on: in the runner, in init, in supervisors."""

import os
import pwd
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from tests.sandbox.errors import SandboxError

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_SI_KERNEL = 0x80  # from the terminal, so that the whole foreground group has it already


def hold_signals() -> None:
    """Block what `wait` is going to look at, so that nothing that comes before it is lost."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *_wanted()})


def _wanted() -> set[signal.Signals]:
    """Not those that our caller had ignored, as nohup does."""
    return {number for number in _PASSED_ON if signal.getsignal(number) != signal.SIG_IGN}


def stopped_early() -> int:
    """The exit code for a held signal that came before there was a child; 0: none came."""
    return next((128 + number for number in _wanted() & signal.sigpending()), 0)


def fork(body: Callable[[], int]) -> int:
    """Run body in a child with no signal held; its result is the exit code. Returns the pid."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid != 0:
        return pid
    code = 1
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        code = body()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def detach(prepare: Callable[[], None], body: Callable[[], int]) -> int:
    """Run body in a session of its own, as a child of the sandbox's init. Returns its pid.

    It inherits what prepare, which runs before the pid is known, has changed.
    """
    read, write = os.pipe()

    def between() -> int:
        os.close(read)
        os.setsid()
        prepare()
        os.write(write, str(fork(body)).encode())
        return 0

    between_pid = fork(between)
    os.close(write)
    with os.fdopen(read) as pipe:
        pid = pipe.read()
    if wait_plainly(between_pid) != 0:
        raise SandboxError("a process in the sandbox could not be started")
    return int(pid)


def execute(command: Sequence[str], env: Mapping[str, str], user: str | None = None) -> int:
    """Become the command; comes back, with the shell's exit code, only if that fails."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], list(command), become(user, env) if user else dict(env))
    except OSError as error:
        print(f"cannot run {command[0]!r}: {error.strerror}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126


def become(user: str, env: Mapping[str, str]) -> dict[str, str]:
    """Take on a user's identity for good. Returns the environment that goes with it."""
    entry = pwd.getpwnam(user)
    os.initgroups(user, entry.pw_gid)
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    try:
        os.chdir(os.getcwd())  # noqa: PTH109 - is the folder still reachable by its name?
    except OSError:
        os.chdir(entry.pw_dir)
    return {**env, "HOME": entry.pw_dir, "USER": user, "LOGNAME": user, "SHELL": entry.pw_shell}


def run(command: Sequence[str], env: Mapping[str, str], user: str | None = None) -> int:
    """Run the command as a child. Returns its exit code as a shell says it."""
    hold_signals()
    return wait(fork(lambda: execute(command, env, user)))


def wait_plainly(pid: int) -> int:
    """Wait for a child that ends by itself soon. Returns its exit code as a shell says it."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


def wait(pid: int, patience: float | None = None, reap_orphans: bool = False) -> int:
    """Wait for a child, with signals held. Returns its exit code as a shell says it.

    A signal that somebody sent to this process is passed on to the child. With patience, a child
    that is still there so many seconds later is killed.
    """
    awaited = {signal.SIGCHLD, *_wanted()}
    deadline: float | None = None
    info: signal.struct_siginfo | None
    while (code := _reap(pid, reap_orphans)) is None:
        if deadline is None:
            info = signal.sigwaitinfo(awaited)
        else:
            info = signal.sigtimedwait(awaited, max(0.0, deadline - time.monotonic()))
        if info is None:
            os.kill(pid, signal.SIGKILL)
            deadline = None
        elif info.si_signo != signal.SIGCHLD and info.si_code != _SI_KERNEL:
            os.kill(pid, info.si_signo)
            if patience is not None and deadline is None:
                deadline = time.monotonic() + patience
    return code


def _reap(pid: int, orphans: bool) -> int | None:
    """Collect dead children without waiting; the exit code of this one, or None while it lives."""
    while True:
        dead, status = os.waitpid(-1 if orphans else pid, os.WNOHANG)
        if dead == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if dead == 0:
            return None
