"""A UNIX socket, for its owner only, on which one line is answered by one text."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path

LONGEST_LINE = 1 << 16
READ_TIMEOUT = 1.0
BACKLOG = 128

Answer = Callable[[bytes], bytes]

_log = logging.getLogger(__name__)


class ServerError(Exception):
    """One sentence: why the socket cannot be served."""


async def serve(path: Path, answer: Answer) -> asyncio.Server:
    """Listen at the path with mode 0600. ``answer`` gets a line without its end.

    Who sends no whole line in time, or too long a one, gets no answer; an answer that fails is
    logged, and the connection closed.
    """
    _make_way(path)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readline(), READ_TIMEOUT)
            if line.endswith(b"\n"):
                writer.write(answer(line[:-1]))
                await writer.drain()
        except (TimeoutError, ValueError, ConnectionError) as error:
            _log.debug("no answer: %s", error)
        except Exception:
            _log.exception("a question could not be answered")
        finally:
            writer.close()

    before = os.umask(0o177)
    try:
        return await asyncio.start_unix_server(handle, path, limit=LONGEST_LINE, backlog=BACKLOG)
    except OSError as error:
        raise ServerError(f"{path} cannot be served: {error.strerror}") from None
    finally:
        os.umask(before)


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
