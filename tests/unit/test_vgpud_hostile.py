"""What a hostile job can send or leave undone: it hurts nobody but itself."""

import contextlib
import os
import random
import select
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from pysched import vgpud_client
from pysched.vgpud_client import VgpudError
from tests.unit.vgpud_node import (
    MIB,
    OK,
    TOO_MANY,
    AttachReply,
    AttachRequest,
    Child,
    MeasureRequest,
    Node,
    eventually,
    message,
    running_node,
)

MakeChild = Callable[[], Child]


def connect(folder: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(30)
    connection.connect(str(folder / "attach.sock"))
    return connection


def descriptors(node: Node) -> int:
    assert node.daemon
    return len(list(Path(f"/proc/{node.daemon.pid}/fd").iterdir()))


def resident_pages(node: Node) -> int:
    assert node.daemon
    return int(Path(f"/proc/{node.daemon.pid}/statm").read_text().split()[1])


def random_message(dice: random.Random) -> bytes:
    """Half of them begin as a message should, and go on as they like."""
    size = dice.choice([1, 15, 16, 20, 24, 64, 2000, 8192, 20000])
    raw = dice.randbytes(size)
    if dice.random() < 0.5 and size >= 16:
        kind = dice.choice([*range(8), *range(30, 50)])
        raw = bytes(vgpud_client.Head(vgpud_client.MAGIC, 1, 0, kind, 0, size)) + raw[16:]
    return raw


def send_many(folder: Path, times: int) -> None:
    """Random messages, with descriptors now and then, on connections that come and go."""
    dice = random.Random(1)
    connection = connect(folder)
    for number in range(times):
        if number % 1000 == 999:
            connection.close()
            connection = connect(folder)
        extra = [0] if dice.random() < 0.1 else []
        try:
            socket.send_fds(connection, [random_message(dice)], extra)
            while select.select([connection], [], [], 0)[0]:  # the answers there are by now
                data, fds, _, _ = socket.recv_fds(connection, 1 << 16, 64)
                for fd in fds:
                    os.close(fd)
                if not data:
                    raise ConnectionResetError
        except (BrokenPipeError, ConnectionResetError):
            connection.close()
            connection = connect(folder)
    connection.close()


def bombard(node: Node, child: MakeChild, times: int) -> None:
    hostile = node.client.bind(7, 0, 1000, [0]).folder
    innocent = child()
    step = node.client.bind(8, 0, 1001, [1])
    innocent.attach(step.folder)
    innocent.charge(0, MIB)
    send_many(hostile, times // 10)
    before = descriptors(node), resident_pages(node)
    send_many(hostile, times)
    assert innocent.measure(step.vgpus[0].id)[0] == OK
    assert innocent.account_charged() == MIB
    assert node.charged(1) == MIB
    eventually(lambda: descriptors(node) == before[0])
    assert resident_pages(node) < before[1] * 1.2 + 1024  # no leak that matters
    node.client.unbind_job(7)
    assert node.client.bind(9, 0, 1000, [0]).vgpus


def test_random_messages_are_answered_or_cut_off_and_nobody_else_notices(
    node: Node, child: MakeChild
) -> None:
    bombard(node, child, 10_000)


@pytest.mark.soak
def test_a_million_random_messages_from_a_hostile_user(built: None, child: MakeChild) -> None:
    with running_node(program="vgpud") as node:
        bombard(node, child, 1_000_000)


def limited(descriptors: int) -> list[str]:
    """What starts a vgpud that cannot have more descriptors than this."""
    capability = ["--bounding-set=-sys_resource", "--inh-caps=-sys_resource"]
    return ["setpriv", *capability, "prlimit", f"--nofile={descriptors}:{descriptors}"]


def test_a_step_with_too_many_connections_leaves_room_for_the_others(built: None) -> None:
    with running_node(prefix=limited(1024)) as node, contextlib.ExitStack() as stack:
        hostile = node.client.bind(7, 0, 1000, [0]).folder
        other = node.client.bind(8, 0, 1000, [1]).folder
        for _ in range(200):
            stack.enter_context(connect(hostile))
        turned_away = stack.enter_context(connect(hostile)).recv(4096)
        reply = vgpud_client.StatusReply.from_buffer_copy(turned_away)
        assert reply.status == TOO_MANY
        assert reply.error == b"there are too many connections to vgpud"
        connection = stack.enter_context(connect(other))
        connection.send(message(32, AttachRequest()))
        assert AttachReply.from_buffer_copy(connection.recv(1 << 16)).status == OK
        assert len(list(node.client.bindings())) == 2


def test_a_vgpud_without_descriptors_turns_callers_away_and_recovers(built: None) -> None:
    with running_node(prefix=limited(64)) as node:
        steps = [node.client.bind(job, 0, 1000, [job]) for job in range(6)]
        bound = len(steps)
        with contextlib.ExitStack() as stack:
            for _ in range(60):
                stack.enter_context(connect(steps[0].folder))
            with pytest.raises(VgpudError):
                for job in range(6, 8):  # one more may still fit
                    node.client.bind(job, 0, 1000, [job])
                    bound += 1
        eventually(lambda: len(list(node.client.bindings())) == bound)
        node.client.unbind_job(5)
        assert node.client.bind(9, 0, 1000, [5]).vgpus


def test_who_does_not_read_the_answers_is_disconnected(node: Node) -> None:
    folder = node.client.bind(7, 0, 1000, [0]).folder
    with connect(folder) as deaf:
        request = message(33, MeasureRequest(vgpu_id=1))  # refused: not attached
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while True:
                deaf.send(request)
    assert list(node.client.bindings())


def test_a_program_that_attaches_again_and_again_uses_up_its_own_step_only(
    node: Node, child: MakeChild
) -> None:
    folder, other = node.client.bind(7, 0, 0, [0]).folder, node.client.bind(8, 0, 0, [1]).folder
    node.driver_lists(0, {os.getpid(): MIB})  # so that no entry is free again at once
    statuses = set()
    with connect(folder) as connection:
        while TOO_MANY not in statuses:
            connection.send(message(32, AttachRequest()))
            data, fds, _, _ = socket.recv_fds(connection, 1 << 16, 64)
            for fd in fds:
                os.close(fd)
            reply = vgpud_client.StatusReply.from_buffer_copy(data)
            statuses.add(reply.status)
        assert reply.error == b"step 7.0 has too many processes that use its vGPUs"
    assert child().attach(other) == (OK, "")
    eventually(lambda: node.processes(0) == 0)


def test_the_thread_that_asks_nvml_shares_nothing_unguarded(built: None, child: MakeChild) -> None:
    with running_node(program="tsan/vgpud") as node:
        step = node.client.bind(7, 0, 1000, [0, 1])
        for _ in range(5):
            process = child()
            process.attach(step.folder)
            node.driver_lists(0, {process.pid: MIB})
            process.charge(0, MIB)
            process.measure(step.vgpus[0].id)
            process.kill()
            node.driver_lists(0, {})
        eventually(lambda: node.charged() == 0)
