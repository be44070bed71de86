"""kill -9 of vgpud, and what the next one takes up."""

import contextlib
import os
import random
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from pysched.vgpud_client import VgpudError
from tests.unit.vgpud_node import (
    AGAIN,
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
CONTROL_REPAIRING = 56


def test_bindings_pages_and_processes_are_taken_up(node: Node, child: MakeChild) -> None:
    step = node.client.bind(7, 0, 1000, [0, 2])
    process, other = child(), child()
    process.attach(step.folder)
    other.attach(step.folder)
    process.charge(0, MIB)
    other.charge(1, 2 * MIB)
    before = list(node.client.bindings())
    node.restart()
    assert list(node.client.bindings()) == before
    process.charge(0, MIB)  # the page is still the same
    assert node.charged(0) == 2 * MIB
    assert process.attach(step.folder, AGAIN) == (OK, "")
    assert process.account_charged(0) == 2 * MIB
    other.kill()
    eventually(lambda: node.charged(1) == 0)


def test_who_died_meanwhile_is_given_back_when_the_driver_lets_go(
    node: Node, child: MakeChild
) -> None:
    folder = node.client.bind(7, 0, 1000, [0]).folder
    process = child()
    process.attach(folder)
    process.charge(0, MIB)
    node.driver_lists(0, {process.pid: MIB})
    node.kill()
    process.kill()
    node.start()
    assert node.charged() == MIB
    node.driver_lists(0, {})
    eventually(lambda: node.charged() == 0)


def test_a_step_whose_slurmstepd_died_meanwhile_is_over(node: Node, child: MakeChild) -> None:
    slurmstepd = child()
    folder = slurmstepd.bind(node.runtime_dir, 7, 0, [0])
    node.kill()
    slurmstepd.kill()
    node.start()
    assert not folder.exists()
    assert [binding.steps for binding in node.client.bindings()] == [0]


def test_the_account_is_found_at_a_process_that_only_mapped_it(
    node: Node, child: MakeChild
) -> None:
    slurmstepd, process = child(), child()
    folder = slurmstepd.bind(node.runtime_dir, 7, 0, [0])
    process.attach(folder)
    process.charge(0, MIB)
    slurmstepd.kill()
    eventually(lambda: not folder.exists())
    node.restart()
    assert node.charged() == MIB
    process.kill()
    eventually(lambda: node.charged() == 0)


def test_an_account_that_nobody_has_any_more_is_made_anew(node: Node) -> None:
    step = node.client.bind(7, 0, 1000, [0])
    for descriptor in step.accounts:
        os.close(descriptor)
    node.restart()
    assert "its account page for GPU 0 is lost" in node.log
    assert node.charged() == 0


def test_a_repair_that_was_cut_short_is_done_again(node: Node, child: MakeChild) -> None:
    process = child()
    process.attach(node.client.bind(7, 0, 1000, [0]).folder)
    process.charge(0, MIB)
    node.kill()
    control = node.runtime_dir / "control/1"
    with control.open("r+b") as page:
        page.seek(CONTROL_REPAIRING)
        page.write(struct.pack("I", 1))
    node.start()
    assert struct.unpack_from("I", control.read_bytes(), CONTROL_REPAIRING) == (0,)
    assert node.charged() == MIB


def test_leftovers_of_no_binding_are_removed(node: Node) -> None:
    folder = node.client.bind(7, 0, 1000, [0]).folder
    node.kill()
    (node.runtime_dir / "control/99").touch()
    (node.runtime_dir / "steps/8.0").mkdir()
    (node.runtime_dir / "steps/8.0/ld.so.preload").touch()
    node.start()
    assert [path.name for path in (node.runtime_dir / "control").iterdir()] == ["1"]
    assert list((node.runtime_dir / "steps").iterdir()) == [folder]


def test_a_node_that_boots_starts_empty(node: Node) -> None:
    node.client.bind(7, 0, 1000, [0])
    node.kill()
    state = node.runtime_dir / "state"
    with state.open("r+b") as file:
        file.seek(8)
        file.write(b"another boot")
    node.start()
    assert not list(node.client.bindings())
    assert not list((node.runtime_dir / "steps").iterdir())
    assert not list((node.runtime_dir / "control").iterdir())


def test_a_vgpu_conf_that_contradicts_a_running_job_is_refused(node: Node) -> None:
    node.client.bind(7, 0, 1000, [5])
    node.stop()
    changed = replace(node, conf=conf_text(slots=4))
    with pytest.raises(AssertionError, match=r"the present vgpu.conf of node n1 does not"):
        changed.start()
    node.start()
    assert [binding.vgpu.slot for binding in node.client.bindings()] == [5]


def test_a_second_vgpud_does_not_start(node: Node) -> None:
    second = subprocess.run(
        node.command(),
        env=node.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert second.returncode == 1
    assert second.stderr == f"vgpud: {node.runtime_dir}: another vgpud runs there\n"


def test_the_fate_of_a_step_survives(node: Node) -> None:
    node.restart()
    assert node.fate(1, 1)[0] == NOT_FOUND


def lead_jobs(node: Node, stop: threading.Event, ended: list[int]) -> None:
    """Jobs one after the other, as Slurm and the SPANK plugin lead them: every message is repeated
    until it is answered."""

    def insist(ask: Callable[[], object]) -> None:
        while True:
            try:
                ask()
                return
            except VgpudError as error:
                if "no such" in str(error):
                    return  # done already: only the answer was lost
                assert "vgpud" in str(error), error  # does not answer, or broke off

    job = 100
    while not stop.is_set():
        job += 1
        descriptors: list[int] = []

        def bind(job: int = job, descriptors: list[int] = descriptors) -> None:
            step = node.client.bind(job, 0, 1000, random.sample(range(8), 2))
            descriptors.extend(step.accounts)

        insist(bind)
        insist(lambda job=job: node.client.unbind_step(job, 0))  # type: ignore[misc]
        insist(lambda job=job: node.client.unbind_job(job))  # type: ignore[misc]
        for descriptor in descriptors:
            os.close(descriptor)
        ended.append(job)


def kill_many_times(node: Node, times: int) -> None:
    stop, ended = threading.Event(), list[int]()
    jobs = threading.Thread(target=lead_jobs, args=(node, stop, ended))
    jobs.start()
    try:
        for _ in range(times):
            time.sleep(random.uniform(0, 0.02))
            node.kill()
            node.start()
    finally:
        stop.set()
        jobs.join(timeout=60)
    assert not jobs.is_alive()
    assert ended
    assert not list(node.client.bindings())
    assert not list((node.runtime_dir / "steps").iterdir())
    assert not list((node.runtime_dir / "control").iterdir())
    assert node.client.bind(1, 0, 0, [0, 1]).vgpus


def test_kill_9_at_any_moment_leaves_a_state_that_is_taken_up(built: None) -> None:
    with running_node(program="vgpud") as node:
        kill_many_times(node, 25)


@pytest.mark.soak
def test_kill_9_at_any_moment_again_and_again(built: None) -> None:
    with running_node(program="vgpud") as node:
        kill_many_times(node, 1000)


def test_processes_that_die_around_a_restart_leave_no_byte(node: Node, child: MakeChild) -> None:
    folder = node.client.bind(7, 0, 1000, [0, 1]).folder
    for _ in range(5):
        process = child()
        process.attach(folder)
        process.charge(0, MIB)
        process.charge(1, MIB)
        killer = threading.Timer(random.uniform(0, 0.1), process.kill)
        killer.start()
        node.restart()
        killer.join()
    eventually(lambda: (node.charged(0), node.charged(1)) == (0, 0))
    assert node.processes(0) == 0


def test_a_restart_is_no_more_than_a_pause_for_new_steps(node: Node) -> None:
    node.kill()
    starter = threading.Thread(target=node.start)
    starter.start()
    step = None
    while step is None:
        with contextlib.suppress(VgpudError):
            step = node.client.bind(7, 0, 1000, [0])
    starter.join()
    assert step.vgpus
