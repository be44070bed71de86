"""A UNIX socket, for its owner only, on which one line is answered by one text.

One thread takes one connection after the other: those who ask here ask one at a time and wait, and
nothing is quicker than that.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

LONGEST_LINE = 1 << 16
READ_TIMEOUT = 0.1
"""Seconds for which a line may keep others waiting."""

BACKLOG = 128

Answer = Callable[[bytes], bytes]

_log = logging.getLogger(__name__)


class ServerError(Exception):
    """One sentence: why the socket cannot be served."""


class LineServer:
    """Listens at the path with mode 0600 from the start; answers between start() and close().

    ``answer`` gets a line without its end. Who sends no whole line in time, or too long a one, gets
    no answer; an answer that fails is logged.
    """

    def __init__(self, path: Path, answer: Answer) -> None:
        self._path, self._answer = path, answer
        self._listener = _listen(path)
        self._thread = threading.Thread(target=self._serve, name="answers", daemon=True)
        self._closing = False

    def start(self) -> None:
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """Answer nobody any more, and remove the socket."""
        self._closing = True
        self._path.unlink(missing_ok=True)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while not self._closing:
            try:
                client, _ = self._listener.accept()
            except OSError:
                continue
            with client:
                self._converse(client)

    def _converse(self, client: socket.socket) -> None:
        try:
            client.settimeout(READ_TIMEOUT)
            line = _line(client)
            if line is not None:
                client.sendall(self._answer(line))
        except OSError as error:
            _log.debug("no answer: %s", error)
        except Exception:
            _log.exception("a question could not be answered")


def _line(client: socket.socket) -> bytes | None:
    """What came before the first newline; None if there is none."""
    data = client.recv(LONGEST_LINE)
    while b"\n" not in data:
        part = client.recv(LONGEST_LINE)
        if not part or len(data) > LONGEST_LINE:
            return None
        data += part
    return data.partition(b"\n")[0]


def _listen(path: Path) -> socket.socket:
    _make_way(path)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise ServerError(f"{path} cannot be served: {error.strerror}") from None
    finally:
        os.umask(before)
    listener.listen(BACKLOG)
    return listener


def _make_way(path: Path) -> None:
    """Remove the socket of a process that is gone."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except FileNotFoundError:
            _make_folder(path.parent)
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise ServerError(f"{path} is no socket of ours: {error.strerror}") from None
        else:
            raise ServerError(f"{path} is served by another process")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ServerError(f"{folder} cannot be made: {error.strerror}") from None
