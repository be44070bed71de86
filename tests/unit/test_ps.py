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
from pysched.cli import table
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
