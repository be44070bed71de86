"""Answers questions on the agent's socket: one line in, one line out, for root only."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path

QUESTION_LIMIT = 1 << 16
READ_TIMEOUT = 1.0

Answer = Callable[[bytes], bytes]

_log = logging.getLogger(__name__)


class ServerError(Exception):
    """One sentence: why the socket cannot be served."""


async def serve(path: Path, answer: Answer, backlog: int = 128) -> asyncio.Server:
    """Listen at the path with mode 0600. ``answer`` gets a line without its end."""
    _make_way(path)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readline(), READ_TIMEOUT)
            if line.endswith(b"\n"):
                writer.write(answer(line[:-1]))
                await writer.drain()
        except (TimeoutError, ValueError, ConnectionError):
            # Whoever sends no line in time, too long a line, or goes away, gets no answer.
            _log.debug("a question came without its end")
        finally:
            writer.close()

    before = os.umask(0o177)
    try:
        return await asyncio.start_unix_server(handle, path, limit=QUESTION_LIMIT, backlog=backlog)
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
            path.parent.mkdir(parents=True, exist_ok=True)
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise ServerError(f"{path} is no socket of ours: {error.strerror}") from None
        else:
            raise ServerError(f"{path} is served by another process")
