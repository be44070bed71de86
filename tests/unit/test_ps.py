"""vgpu ps, over a socket that answers as vgpud does."""

import ctypes
import doctest
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from pysched import vgpud_client
from pysched.cli import ps, table
from pysched.cli.main import main
from pysched.vgpud_client import Desc, Head, ListReply


def record(vgpu: int, job: int, slot: int, charged: int) -> ListReply:
    desc = Desc(
        id=vgpu, quota=4 << 30, gpu=slot % 4, gpu_sms=108, sms=15, max_sms=30, slot=slot, n_slots=1,
        type=b"a100-4g", pci=b"00000000:41:00.0",
    )  # fmt: skip
    return ListReply(vgpu=desc, job=job, uid=0, processes=2, charged=charged, peak=3 << 30)


@pytest.fixture
def vgpud(tmp_path: Path) -> Iterator[Path]:
    """A folder with a vgpud.sock that lists two vGPUs."""
    records = [record(1, 42, 9, 1 << 30), record(2, 7, 0, 0)]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "vgpud.sock"))
        listener.listen()
        for_all = threading.Thread(target=serve, args=(listener, records), daemon=True)
        for_all.start()
        yield tmp_path
        listener.shutdown(socket.SHUT_RDWR)
        for_all.join(5)


def serve(listener: socket.socket, records: list[ListReply]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            request = vgpud_client.ListRequest.from_buffer_copy(connection.recv(4096))
            later = [found for found in records if found.vgpu.id > request.after]
            reply = later[0] if later else ListReply(status=vgpud_client.NOT_FOUND)
            reply.head = Head(vgpud_client.MAGIC, 1, 0, vgpud_client.LIST, 0, ctypes.sizeof(reply))
            connection.send(bytes(reply))


def test_that_bindings_are_a_table_by_job_and_slot(vgpud: Path) -> None:
    done = CliRunner().invoke(main, ["ps", "--runtime-dir", str(vgpud)])
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "JOB  USER  SLOT  GPU  TYPE     QUOTA   USED   PEAK  PROCS",
        "  7  root     0    0  a100-4g  4 GiB      0  3 GiB      2",
        " 42  root     9    1  a100-4g  4 GiB  1 GiB  3 GiB      2",
    ]


def test_that_bindings_are_json_with_bytes(vgpud: Path) -> None:
    done = CliRunner().invoke(main, ["ps", "--json", "--runtime-dir", str(vgpud)])
    first = json.loads(done.stdout)[0]
    assert (first["job"], first["charged"], first["vgpu"]["quota"]) == (42, 1 << 30, 4 << 30)


def test_that_a_missing_vgpud_is_one_sentence(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["ps", "--runtime-dir", str(tmp_path)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("vgpu: vgpud does not answer at ")
    assert done.stderr.count("\n") == 1


def test_that_the_examples_in_docstrings_are_true() -> None:
    failed, tried = doctest.testmod(table)
    assert (failed, tried > 0) == (0, True)


def binding(**changes: int) -> vgpud_client.Binding:
    vgpu = vgpud_client.Vgpu(
        id=1, quota=40 << 30, gpu_uuid="GPU-0", gpu=11, gpu_sms=108, sms=100, max_sms=108,
        slot=127, slots=1, type="a100-40g", pci="",
    )  # fmt: skip
    numbers = {
        "job": 12345678, "uid": 0, "steps": 1, "processes": 16, "charged": 39 << 30,
        "driver": 39 << 30, "peak": 40 << 30, "refusals": 0, "launches": 0, "entitled_ns": 10**12,
        "used_ns": 10**12, "waited_ns": 0, "overrun_ns": 0, "switches": 100000, "slice_us": 10000,
    }  # fmt: skip
    return vgpud_client.Binding(vgpu=vgpu, workload="", **{**numbers, **changes})


def test_that_watching_shows_per_cent_of_the_gpus_time_in_80_columns() -> None:
    before = [binding()]
    now = [binding(used_ns=10**12 + 500_000_000, waited_ns=1_500_000_000)]
    lines = ps.as_watch_table(now, before, 2.0).splitlines()
    assert lines[1].split()[-2:] == ["25.0", "75.0"]
    assert max(map(len, lines)) <= 80
    assert ps.as_watch_table(now, [], 2.0).splitlines()[1].split()[-2:] == ["-", "-"]


def test_that_gpu_time_is_shown_in_seconds_in_80_columns() -> None:
    lines = ps.as_time_table([binding(overrun_ns=1_250_000_000)]).splitlines()
    assert lines[1].split()[3:] == ["100/108", "10ms", "1000.0", "1000.0", "0.0", "1.2", "100000"]
    assert max(map(len, lines)) <= 80
