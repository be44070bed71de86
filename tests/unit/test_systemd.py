"""A service and systemd's watchdog."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pysched import systemd


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Where systemd listens, with a watchdog of 100 ms."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        monkeypatch.setenv("WATCHDOG_USEC", "100000")
        yield listener


def words(listener: socket.socket) -> list[bytes]:
    said = []
    while True:
        try:
            said.append(listener.recv(100))
        except BlockingIOError:
            return said


def test_that_a_long_wait_says_that_it_is_alive(heard: socket.socket) -> None:
    assert not systemd.wait(threading.Event(), 0.3)
    assert len(words(heard)) >= 2
    assert not systemd.wait(threading.Event(), 0)


def test_that_a_wait_ends_with_the_service(heard: socket.socket) -> None:
    end = threading.Event()
    end.set()
    assert systemd.wait(end, 1000)
    assert systemd.wait(end, 0)


def test_that_a_watchdog_of_another_process_is_none_of_ours(
    heard: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_PID", str(os.getppid()))
    assert not systemd.wait(threading.Event(), 0.3)
    assert len(words(heard)) == 1


def test_that_without_systemd_it_is_a_plain_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    assert not systemd.wait(threading.Event(), 0.01)
