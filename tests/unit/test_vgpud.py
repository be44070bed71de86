"""vgpud by itself: binding, attaching, accounts, the end of processes, steps and jobs."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pysched import vgpud_client
from pysched.vgpud_client import VgpudError
from tests.unit.vgpud_node import (
    AGAIN,
    BAD_MESSAGE,
    BAD_VERSION,
    GIB,
    MIB,
    NOT_FOUND,
    OK,
    REFUSED,
    UNAVAILABLE,
    AttachRequest,
    Child,
    Node,
    conf_text,
    eventually,
    message,
    running_node,
)

MakeChild = Callable[[], Child]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- binding --------------------------------------------------------------------------------------


def test_a_step_gets_its_slots_on_different_gpus_and_a_folder_with_a_socket(node: Node) -> None:
    step = node.client.bind(7, 0, 1000, [0, 2])
    assert [vgpu.gpu for vgpu in step.vgpus] == [0, 1]
    assert [vgpu.quota for vgpu in step.vgpus] == [GIB, GIB]
    assert [vgpu.slot for vgpu in step.vgpus] == [0, 2]
    assert len(step.accounts) == 2
    assert step.folder == node.runtime_dir / "steps/7.0"
    assert mode(step.folder / "attach.sock") == 0o666


def test_only_root_reaches_anything_but_what_is_mounted_into_the_step(node: Node) -> None:
    node.client.bind(7, 0, 1000, [0])
    assert mode(node.runtime_dir / "vgpud.sock") == 0o600
    assert mode(node.runtime_dir / "state") == 0o600
    assert mode(node.runtime_dir / "steps") == 0o700
    assert mode(node.runtime_dir / "control") == 0o700
    assert mode(node.runtime_dir / "control/1") == 0o600


def test_steps_of_a_job_share_the_vgpu_of_a_slot(node: Node) -> None:
    batch = node.client.bind(7, 0xFFFFFFFB, 1000, [0, 1])
    step = node.client.bind(7, 0, 1000, [1])
    assert [vgpu.id for vgpu in step.vgpus] == [batch.vgpus[1].id]
    assert [binding.steps for binding in node.client.bindings()] == [1, 2]
    node.client.unbind_step(7, 0)
    assert [binding.steps for binding in node.client.bindings()] == [1, 1]


def test_binding_a_step_again_gives_the_same_answer(node: Node) -> None:
    first = node.client.bind(7, 0, 1000, [0, 1])
    again = node.client.bind(7, 0, 1000, [0, 1])
    assert again.vgpus == first.vgpus
    assert again.folder == first.folder
    assert len(list(node.client.bindings())) == 2


def test_no_room_says_what_is_wanted_and_what_is_free(node: Node) -> None:
    for job in range(4):
        node.client.bind(job, 0, 1000, [2 * job])
    node.client.bind(4, 0, 1000, [1])
    with pytest.raises(VgpudError, match=r"node n1 has no room now for 2 vGPUs on different GPUs "):
        node.client.bind(5, 0, 1000, [3, 5])
    assert not (node.runtime_dir / "steps/5.0").exists()
    assert len(list(node.client.bindings())) == 5


def test_colocated_slots_are_one_vgpu_with_the_sum_of_their_quota_and_sms(node: Node) -> None:
    step = node.client.bind(7, 0, 1000, [0, 1, 2], colocate=True)
    (vgpu,) = step.vgpus
    assert (vgpu.quota, vgpu.sms, vgpu.max_sms, vgpu.slots) == (3 * GIB, 30, 60, 3)
    again = node.client.bind(7, 1, 1000, [2])
    assert [vgpu.id for vgpu in again.vgpus] == [vgpu.id]


def test_advice_decides_the_order_of_ranks(node: Node) -> None:
    step = node.client.bind(7, 0, 1000, [0, 1], advice=[1, 0])
    assert step.advised
    assert [vgpu.gpu for vgpu in step.vgpus] == [1, 0]
    assert not node.client.bind(8, 0, 1000, [2, 3], advice=[1, 1]).advised


def test_a_slot_that_slurm_gave_to_another_job_is_taken_from_the_one_before(
    node: Node, child: MakeChild
) -> None:
    process = child()
    process.attach(node.client.bind(7, 0, 1000, [0, 1]).folder)
    node.client.bind(8, 0, 1000, [0])
    assert process.ended(0)
    # A step of job 7 is still there: only what collides goes.
    assert {(b.job, b.vgpu.slot) for b in node.client.bindings()} == {(7, 1), (8, 0)}
    node.client.unbind_step(7, 0)
    node.client.bind(9, 0, 1000, [1])
    assert {b.job for b in node.client.bindings()} == {8, 9}


def test_all_of_a_job_without_steps_is_evicted_with_its_first_slot(node: Node) -> None:
    node.client.bind(7, 0, 1000, [0, 1])
    node.client.unbind_step(7, 0)
    node.client.bind(8, 0, 1000, [0])
    assert {b.job for b in node.client.bindings()} == {8}
    assert sorted(path.name for path in (node.runtime_dir / "control").iterdir()) == ["3"]


def test_the_best_linked_pair_is_bound(built: None) -> None:
    with running_node(conf=conf_text(gpus=4, slots=8), gpus=4) as node:
        node.kill()
        (node.folder / "nvml/links").write_text("0 3 4\n1 2 4\n0 1 1\n")
        node.start()
        node.client.bind(1, 0, 0, [0])
        node.client.bind(2, 0, 0, [4])
        step = node.client.bind(3, 0, 0, [2, 3])
        assert sorted(vgpu.gpu for vgpu in step.vgpus) == [1, 2]


def test_gpus_that_reach_a_switch_are_linked_by_the_smaller_count(built: None) -> None:
    with running_node(conf=conf_text(gpus=4, slots=8), gpus=4) as node:
        node.kill()
        (node.folder / "nvml/links").write_text("0 switch 6\n2 switch 12\n3 switch 12\n0 1 4\n")
        node.start()
        step = node.client.bind(1, 0, 0, [0, 1], affinity="require_nvlink")
        assert sorted(vgpu.gpu for vgpu in step.vgpus) == [2, 3]
        with pytest.raises(VgpudError, match="never has room for 4 vGPUs on different GPUs"):
            node.client.bind(2, 0, 0, [2, 3, 4, 5], affinity="require_nvlink")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"n_slots": 0}, "n_slots is 0; 1 to 1024 is right"),
        ({"n_slots": 1025}, "n_slots is 1025; 1 to 1024 is right"),
        ({"n_advice": 33}, "n_advice is 33; at most 32 is right"),
        ({"flags": 2}, "flags has bits that this version does not know: 0x2"),
        ({"affinity": 4}, "affinity is 4; 0 to 3 is right"),
        ({"slice_us": 4999}, "slice_us is 4999; 0, or 5000 to 1000000 is right"),
        ({"holder": -1}, "holder is -1; a process id, or 0, is right"),
        ({"holder": 2**22 + 1}, "process 4194305, which is to hold the pages, does not exist"),
        ({"workload": b"x" * 64}, "workload and burst_class are printable and end with a zero"),
        ({"slots": 99}, "slot 99 does not exist; vgpu.conf gives node n1 slots 0 to 7"),
    ],
)
def test_every_field_of_a_bind_is_checked(
    node: Node, change: dict[str, int | bytes], sentence: str
) -> None:
    request = vgpud_client.BindRequest(job=7, step=0, n_slots=1)
    for name, value in change.items():
        if name == "slots":
            request.slots[0] = value
        elif isinstance(value, bytes):
            offset = getattr(vgpud_client.BindRequest, name).offset
            raw = bytearray(message(1, request))
            raw[offset : offset + len(value)] = value
            request = vgpud_client.BindRequest.from_buffer(raw)
        else:
            setattr(request, name, value)
    with node.root() as connection:
        connection.send(message(1, request))
        reply = vgpud_client.StatusReply.from_buffer_copy(connection.recv(1 << 16))
    assert reply.error.decode() == sentence
    assert not list(node.client.bindings())
    assert not list((node.runtime_dir / "steps").iterdir())


# --- attaching ------------------------------------------------------------------------------------


def test_processes_of_a_step_share_pages_with_an_entry_each(node: Node, child: MakeChild) -> None:
    folder = node.client.bind(7, 0, 1000, [0, 1]).folder
    first, second = child(), child()
    assert first.attach(folder) == (OK, "")
    assert second.attach(folder) == (OK, "")
    first.charge(1, MIB)
    second.charge(1, MIB)
    assert second.account_charged(1) == 2 * MIB
    assert node.charged(1) == 2 * MIB
    assert node.processes(0) == 2
    assert first.word("quota") == GIB


def test_a_job_cannot_write_its_limits_or_cut_its_account(node: Node, child: MakeChild) -> None:
    if os.geteuid() != 0:
        pytest.fail("run the tests as root: the control page is root's")
    process = child()
    process.attach(node.client.bind(7, 0, 1000, [0]).folder)
    assert process.write_control() == ""


def test_a_new_connection_keeps_the_charges_and_a_new_program_does_not(
    node: Node, child: MakeChild
) -> None:
    folder = node.client.bind(7, 0, 1000, [0]).folder
    process = child()
    process.attach(folder)
    process.charge(0, MIB)
    process.attach(folder, AGAIN)
    assert node.charged() == MIB
    assert node.processes() == 1
    process.attach(folder)  # as after exec
    eventually(lambda: node.charged() == 0)
    assert node.processes() == 1


def test_what_exec_left_behind_is_given_back(node: Node, child: MakeChild) -> None:
    process = child()
    process.attach(node.client.bind(7, 0, 1000, [0]).folder)
    process.charge(0, MIB)
    process.exec()
    eventually(lambda: node.charged() == 0)
    assert node.processes() == 0


def test_closed_descriptors_and_inherited_sockets_say_nothing_about_life(
    node: Node, child: MakeChild
) -> None:
    folder = node.client.bind(7, 0, 1000, [0]).folder
    closes, forks = child(), child()
    closes.attach(folder)
    closes.charge(0, MIB)
    closes.disconnect()
    forks.attach(folder)
    forks.charge(0, MIB)
    forks.fork()  # keeps the connection open
    assert node.charged() == 2 * MIB
    forks.kill()
    eventually(lambda: node.charged() == MIB)
    closes.kill()
    eventually(lambda: node.charged() == 0)


def test_an_attach_socket_takes_no_orders(node: Node) -> None:
    folder = node.client.bind(7, 0, 1000, [0]).folder
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(str(folder / "attach.sock"))
        connection.send(message(3, vgpud_client.UnbindRequest(job=7)))
        reply = vgpud_client.StatusReply.from_buffer_copy(connection.recv(4096))
    assert reply.status == BAD_MESSAGE
    assert reply.error == b"this socket does not take messages of that type"
    assert len(list(node.client.bindings())) == 1


def test_another_major_version_is_told_so(node: Node) -> None:
    request = AttachRequest()
    raw = bytearray(message(32, request))
    raw[4] = 9
    with node.root() as connection:
        connection.send(raw)
        reply = vgpud_client.StatusReply.from_buffer_copy(connection.recv(4096))
    assert reply.status == BAD_VERSION


def test_an_older_and_a_newer_minor_version_are_understood(node: Node) -> None:
    with node.root() as connection:
        for size in (20, 300):  # without the last field; with fields that we do not know
            raw = bytearray(message(4, vgpud_client.ListRequest()).ljust(size, b"\x7f")[:size])
            raw[12:16] = size.to_bytes(4, "little")
            raw[16:24] = bytes(len(raw[16:24]))
            connection.send(raw)
            reply = vgpud_client.StatusReply.from_buffer_copy(connection.recv(4096))
            assert reply.status == NOT_FOUND


# --- the end of a process -------------------------------------------------------------------------


def test_a_dead_process_is_charged_until_the_driver_has_let_go(
    node: Node, child: MakeChild
) -> None:
    folder = node.client.bind(7, 0, 1000, [0, 1]).folder
    victim, survivor = child(), child()
    victim.attach(folder)
    survivor.attach(folder)
    for rank in (0, 1):
        victim.charge(rank, 10 * MIB)
        survivor.charge(rank, MIB)
    node.driver_lists(0, {victim.pid: 10 * MIB, survivor.pid: MIB})
    victim.kill()
    eventually(lambda: node.charged(1) == MIB)  # GPU 1 never listed it
    eventually(lambda: node.processes(0) == 1)
    assert node.charged(0) == 11 * MIB
    node.driver_lists(0, {survivor.pid: MIB})
    eventually(lambda: node.charged(0) == MIB)
    assert survivor.account_charged(0) == MIB


def test_memory_on_the_graphics_list_counts_too(node: Node, child: MakeChild) -> None:
    victim = child()
    victim.attach(node.client.bind(7, 0, 1000, [0]).folder)
    victim.charge(0, MIB)
    node.driver_lists(0, {victim.pid: MIB}, "graphics")
    victim.kill()
    eventually(lambda: node.processes() == 0)
    assert node.charged() == MIB
    node.driver_lists(0, {}, "graphics")
    eventually(lambda: node.charged() == 0)


def test_a_process_stopped_inside_a_charge_delays_nobody_for_long(
    node: Node, child: MakeChild
) -> None:
    folder = node.client.bind(7, 0, 1000, [0]).folder
    stopped, victim = child(), child()
    stopped.attach(folder)
    victim.attach(folder)
    stopped.charge(0, 2 * MIB)
    stopped.be_busy(0, 1)
    victim.charge(0, MIB)
    victim.kill()
    eventually(lambda: node.charged() == 2 * MIB)
    stopped.be_busy(0, 0)
    stopped.kill()
    eventually(lambda: node.charged() == 0)


def test_a_process_that_died_inside_a_charge_leaves_no_byte(node: Node, child: MakeChild) -> None:
    folder = node.client.bind(7, 0, 1000, [0]).folder
    victim, survivor = child(), child()
    victim.attach(folder)
    survivor.attach(folder)
    survivor.charge(0, MIB)
    victim.be_busy(0, 3)
    victim.kill()
    eventually(lambda: node.processes() == 1)
    eventually(lambda: node.charged() == MIB)


def test_a_driver_that_answers_no_more_keeps_no_quota(node: Node, child: MakeChild) -> None:
    victim = child()
    victim.attach(node.client.bind(7, 0, 1000, [0]).folder)
    victim.charge(0, MIB)
    (node.folder / "nvml/broken").touch()
    victim.kill()
    eventually(lambda: node.charged() == 0)
    assert "GPU 0: NVML does not list the processes: Unknown Error" in node.log


def test_a_slow_driver_delays_nobody_who_does_not_need_it(node: Node, child: MakeChild) -> None:
    step = node.client.bind(7, 0, 1000, [0])
    (node.folder / "nvml/slow").touch()
    measuring, other = child(), child()
    measuring.attach(step.folder)
    measuring.measure(step.vgpus[0].id)
    assert other.attach(step.folder) == (OK, "")


def test_garbage_in_the_account_hurts_its_own_job_only(node: Node, child: MakeChild) -> None:
    vandal, peer, other = child(), child(), child()
    folder = node.client.bind(7, 0, 1000, [0]).folder
    vandal.attach(folder)
    peer.attach(folder)
    other.attach(node.client.bind(8, 0, 1001, [2]).folder)
    other.charge(0, MIB)
    vandal.scribble()
    assert node.charged(0) == 8 * GIB  # clamped to the card
    vandal.kill()
    eventually(lambda: node.processes(0) == 1)
    assert node.charged(1) == MIB
    assert other.account_charged() == MIB
    node.client.unbind_job(7)
    assert node.client.bind(9, 0, 1000, [0]).vgpus[0].quota == GIB


# --- the end of steps and jobs --------------------------------------------------------------------


def test_an_ended_step_takes_no_more_processes_but_keeps_the_vgpu(
    node: Node, child: MakeChild
) -> None:
    folder = node.client.bind(7, 0, 1000, [0]).folder
    process = child()
    process.attach(folder)
    node.client.unbind_step(7, 0)
    assert not folder.exists()
    assert not process.ended()
    assert node.client.bind(7, 1, 1000, [0]).vgpus[0].id == 1
    with pytest.raises(VgpudError, match="vgpud knows no such step"):
        node.client.unbind_step(7, 0)


def test_a_step_ends_with_the_process_that_holds_its_pages(node: Node, child: MakeChild) -> None:
    slurmstepd = child()
    folder = slurmstepd.bind(node.runtime_dir, 7, 0, [0])
    slurmstepd.kill()
    eventually(lambda: not folder.exists())
    assert [binding.job for binding in node.client.bindings()] == [7]


def test_an_ended_job_leaves_nothing(node: Node) -> None:
    node.client.bind(7, 0, 1000, [0, 1])
    node.client.bind(7, 1, 1000, [0])
    node.client.unbind_job(7)
    assert not list(node.client.bindings())
    assert not list((node.runtime_dir / "steps").iterdir())
    assert not list((node.runtime_dir / "control").iterdir())
    with pytest.raises(VgpudError, match="vgpud knows no such job"):
        node.client.unbind_job(7)


def test_a_job_has_ended_when_the_driver_has_let_go_of_its_memory(
    node: Node, child: MakeChild
) -> None:
    process = child()
    process.attach(node.client.bind(7, 0, 1000, [0]).folder)
    process.charge(0, MIB)
    node.driver_lists(0, {process.pid: MIB})
    with node.root() as connection:
        connection.send(message(3, vgpud_client.UnbindRequest(job=7)))
        eventually(process.ended)
        process.kill()
        eventually(lambda: node.processes() == 0)
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(4096)
        connection.settimeout(20)
        node.driver_lists(0, {})
        reply = vgpud_client.StatusReply.from_buffer_copy(connection.recv(4096))
    assert reply.status == OK
    assert not list(node.client.bindings())


def test_a_job_ends_even_if_whoever_ended_it_does_not_wait(node: Node, child: MakeChild) -> None:
    process = child()
    process.attach(node.client.bind(7, 0, 1000, [0]).folder)
    with node.root() as connection:
        connection.send(message(3, vgpud_client.UnbindRequest(job=7)))
        eventually(process.ended)
    eventually(lambda: not list(node.client.bindings()))


def test_a_job_whose_processes_will_not_die_ends_all_the_same(node: Node, child: MakeChild) -> None:
    process = child()
    process.attach(node.client.bind(7, 0, 1000, [0]).folder)
    node.client.unbind_job(7)
    assert process.ended()
    assert node.client.bind(8, 0, 1000, [0]).vgpus[0].quota == GIB


# --- questions ------------------------------------------------------------------------------------


def test_a_process_learns_what_the_driver_says_it_holds(node: Node, child: MakeChild) -> None:
    step = node.client.bind(7, 0, 1000, [0])
    process = child()
    process.attach(step.folder)
    assert process.measure(step.vgpus[0].id) == (OK, "", 0)
    node.driver_lists(0, {process.pid: 300 * MIB, 1: GIB})
    assert process.measure(step.vgpus[0].id) == (OK, "", 300 * MIB)
    assert process.measure(99)[:2] == (NOT_FOUND, "this process has no such vGPU")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.connect(str(step.folder / "attach.sock"))
        stranger.send(message(33, vgpud_client.ListRequest(after=1)))
        reply = vgpud_client.StatusReply.from_buffer_copy(stranger.recv(4096))
        assert (reply.status, reply.error) == (REFUSED, b"attach first")
    (node.folder / "nvml/broken").touch()
    assert process.measure(step.vgpus[0].id)[0] == UNAVAILABLE


def test_the_size_of_a_context_is_learned_and_nobody_can_raise_it_for_others(
    node: Node, child: MakeChild
) -> None:
    step, other = node.client.bind(7, 0, 1000, [0]), node.client.bind(8, 0, 1001, [2])
    assert other.vgpus[0].gpu == 0
    mine, theirs = child(), child()
    mine.attach(step.folder)
    theirs.attach(other.folder)
    node.driver_lists(0, {mine.pid: 300 * MIB, theirs.pid: GIB})
    mine.measure(step.vgpus[0].id)
    assert theirs.word("context_bytes") == 300 * MIB
    theirs.measure(other.vgpus[0].id)
    assert mine.word("context_bytes") == 300 * MIB
    late = child()
    late.attach(node.client.bind(9, 0, 1001, [4]).folder)
    assert late.word("context_bytes") == 300 * MIB


def test_the_list_says_what_the_driver_says_beside_the_account(
    node: Node, child: MakeChild
) -> None:
    process = child()
    process.attach(node.client.bind(7, 3, 1000, [0]).folder)
    node.driver_lists(0, {process.pid: 300 * MIB})
    eventually(lambda: next(node.client.bindings()).driver == 300 * MIB)
    binding = next(node.client.bindings())
    assert (binding.job, binding.uid, binding.steps, binding.processes) == (7, 1000, 1, 1)
    assert binding.slice_us == 10000


def test_policy_reaches_the_vgpus_of_a_job_and_is_checked(built: None) -> None:
    with running_node(conf=conf_text(extra="Workload=cnn Slice=15ms")) as node:
        node.client.bind(7, 0, 1000, [0])
        node.client.set_policy(7, max_sms=50, workload="cnn")
        (binding,) = node.client.bindings()
        assert (binding.slice_us, binding.vgpu.max_sms, binding.workload) == (15000, 50, "cnn")
        node.client.set_policy(7, slice_us=20000)
        assert next(node.client.bindings()).slice_us == 20000
        with pytest.raises(VgpudError, match="max_sms is below the SMs that a vGPU"):
            node.client.set_policy(7, max_sms=9)
        with pytest.raises(VgpudError, match="5ms to 1000ms is what this site allows"):
            node.client.set_policy(7, slice_us=1)
        with pytest.raises(VgpudError, match="the job has no vGPU on this node"):
            node.client.set_policy(8)


def test_a_step_that_vgpud_did_not_end_has_no_fate(node: Node) -> None:
    assert node.fate(7, 0) == (NOT_FOUND, "vgpud did not end this step")
