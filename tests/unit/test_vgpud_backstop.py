"""The backstop: what is taken past the shim is seen through the driver, and the step is ended."""

import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.vgpud_node import (
    GIB,
    MIB,
    NOT_FOUND,
    OK,
    Child,
    Node,
    conf_text,
    eventually,
    running_node,
)

MakeChild = Callable[[], Child]
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 4096, 16384, 1 << 18


def backstop(policy: str) -> str:
    return conf_text(extra=f"Backstop={policy} Tolerance=64MiB ToleranceTime=200ms")


@pytest.fixture
def node(built: None) -> Iterator[Node]:
    with running_node(conf=backstop("end")) as node:
        yield node


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_a_step_above_its_quota_is_ended_and_told_why(node: Node, child: MakeChild) -> None:
    slurmstepd, other = child(), child()
    slurmstepd.bind(node.runtime_dir, 7, 0, [0])
    other.bind(node.runtime_dir, 8, 0, [2])
    tasks = [slurmstepd.fork() for _ in range(3)]
    innocent = other.fork()
    node.driver_lists(0, {tasks[0]: 800 * MIB, tasks[1]: 300 * MIB, innocent: GIB + 64 * MIB})
    eventually(lambda: not any(map(alive, tasks)))
    assert alive(slurmstepd.pid)
    assert alive(innocent)  # exactly at the tolerance, on the same GPU
    status, why = node.fate(7, 0)
    assert status == OK
    assert why == (
        "its processes held 1100 MiB of GPU 0 of node n1, past the quota of 1024 MiB of its vGPU"
    )
    assert f"job 7.0: {why}: ended" in node.log
    assert node.fate(8, 0)[0] == NOT_FOUND


def test_a_process_on_a_gpu_where_its_job_has_no_vgpu_is_ended(
    node: Node, child: MakeChild
) -> None:
    slurmstepd = child()
    slurmstepd.bind(node.runtime_dir, 7, 0, [0])
    task, quiet = slurmstepd.fork(), slurmstepd.fork()
    node.driver_lists(1, {task: MIB})
    eventually(lambda: not alive(task) and not alive(quiet))
    assert node.fate(7, 0)[1] == (
        f"process {task} held 1 MiB of GPU 1 of node n1, where its job has no vGPU"
    )


def test_graphics_memory_is_seen_too(node: Node, child: MakeChild) -> None:
    slurmstepd = child()
    slurmstepd.bind(node.runtime_dir, 7, 0, [0])
    task = slurmstepd.fork()
    node.driver_lists(1, {task: MIB}, "graphics")
    eventually(lambda: not alive(task))


def test_an_attached_process_is_judged_by_the_driver_not_by_its_page(
    node: Node, child: MakeChild
) -> None:
    slurmstepd, task = child(), child()
    task.attach(slurmstepd.bind(node.runtime_dir, 7, 0, [0]))
    node.driver_lists(0, {task.pid: 2 * GIB})
    eventually(lambda: not alive(task.pid))
    assert node.fate(7, 0)[0] == OK


def test_processes_of_no_step_are_left_alone(node: Node, child: MakeChild) -> None:
    slurmstepd, monitor = child(), child()
    slurmstepd.bind(node.runtime_dir, 7, 0, [0])
    task = slurmstepd.fork()
    node.driver_lists(0, {monitor.pid: 4 * GIB, slurmstepd.pid: 4 * GIB, task: 4 * GIB})
    eventually(lambda: not alive(task))
    assert alive(monitor.pid)
    assert alive(slurmstepd.pid)


def daemonize_in_step(folder: Path) -> int:
    """A process with the step's view of the node, whose parents are gone. Returns its pid."""
    reader, writer = os.pipe()
    first = os.fork()
    if first == 0:
        libc = ctypes.CDLL(None)
        libc.unshare(CLONE_NEWNS)
        libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
        libc.mount(b"none", b"/run", b"tmpfs", 0, None)
        Path("/run/vgpu-step").mkdir()
        libc.mount(bytes(folder), b"/run/vgpu-step", None, MS_BIND, None)
        if os.fork() == 0:
            os.setsid()
            os.write(writer, str(os.getpid()).encode())
            signal.alarm(60)
            while True:
                time.sleep(1)
        os._exit(0)
    os.waitpid(first, 0)
    pid = int(os.read(reader, 16))
    os.close(reader)
    os.close(writer)
    return pid


def test_a_process_that_left_its_parents_is_known_by_the_folder_it_sees(
    node: Node, child: MakeChild
) -> None:
    slurmstepd = child()
    pid = daemonize_in_step(slurmstepd.bind(node.runtime_dir, 7, 0, [0]))
    node.driver_lists(1, {pid: MIB})
    eventually(lambda: not alive(pid))
    assert node.fate(7, 0)[0] == OK


def test_a_step_without_vgpus_is_known_by_its_slurmstepd(node: Node, tmp_path: Path) -> None:
    program = tmp_path / "slurmstepd"
    shutil.copy("/bin/bash", program)
    command = ["slurmstepd: [55.3]", "-c", "sleep 60 & echo $!; wait; sleep 60"]
    with subprocess.Popen(command, executable=program, stdout=subprocess.PIPE, text=True) as stepd:
        assert stepd.stdout
        task = int(stepd.stdout.readline())
        node.driver_lists(1, {task: MIB})
        eventually(lambda: not alive(task))
        assert alive(stepd.pid)
        status, why = node.fate(55, 3)
        assert status == OK
        assert why.startswith(f"process {task} held 1 MiB of GPU 1")
        children = _children(stepd.pid)
        stepd.kill()
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_warn_says_it_once_and_ends_nothing(built: None, child: MakeChild) -> None:
    with running_node(conf=backstop("warn")) as node:
        slurmstepd = child()
        slurmstepd.bind(node.runtime_dir, 7, 0, [0])
        task = slurmstepd.fork()
        node.driver_lists(0, {task: 2 * GIB})
        node.driver_lists(1, {task: MIB})
        eventually(lambda: node.log.count("(Backstop=warn)") == 2)
        time.sleep(0.5)
        assert node.log.count("(Backstop=warn)") == 2
        assert alive(task)
        assert node.fate(7, 0)[0] == NOT_FOUND


def test_off_looks_at_nothing(built: None, child: MakeChild) -> None:
    with running_node(conf=backstop("off")) as node:
        slurmstepd = child()
        slurmstepd.bind(node.runtime_dir, 7, 0, [0])
        task = slurmstepd.fork()
        node.driver_lists(1, {task: 2 * GIB})
        time.sleep(0.5)
        assert alive(task)


def test_memory_that_did_not_attach_is_in_the_list(built: None, child: MakeChild) -> None:
    with running_node(conf=backstop("end")) as node:
        slurmstepd = child()
        slurmstepd.bind(node.runtime_dir, 7, 0, [0])
        task = slurmstepd.fork()
        node.driver_lists(0, {task: 300 * MIB})
        eventually(lambda: next(node.client.bindings()).driver == 300 * MIB)


def test_the_fate_of_a_step_outlives_vgpud_but_not_a_requeue(node: Node, child: MakeChild) -> None:
    slurmstepd = child()
    slurmstepd.bind(node.runtime_dir, 7, 0, [0])
    task = slurmstepd.fork()
    node.driver_lists(1, {task: MIB})
    eventually(lambda: not alive(task))
    node.driver_lists(1, {})
    node.restart()
    assert node.fate(7, 0)[0] == OK
    slurmstepd.bind(node.runtime_dir, 7, 0, [0])
    assert node.fate(7, 0)[0] == NOT_FOUND
