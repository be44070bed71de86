"""vgpu-select: says at submit whether a request for vGPUs makes sense, and where it fits best."""

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
from pathlib import Path

from pysched import paths, systemd
from pysched.lineserver import ServerError, serve
from pysched.select.service import Service
from pysched.slurm import SlurmError, readers

SOCKET = Path("/run/vgpu-select/select.sock")
ALIVE_EVERY = 2.0

_log = logging.getLogger("vgpu-select")


async def run(service: Service, socket: Path, interval: float) -> None:
    """Serve until told to stop."""
    server = await serve(socket, service.answer)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with server:
        systemd.ready()
        renewing = asyncio.create_task(_renew(service, interval))
        while not stop.is_set():
            systemd.alive()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), ALIVE_EVERY)
        renewing.cancel()
    socket.unlink(missing_ok=True)


async def _renew(service: Service, interval: float) -> None:
    while True:
        await service.renew()
        await asyncio.sleep(interval)


def main() -> int:
    options = _parser().parse_args()
    logging.basicConfig(format="vgpu-select: %(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        name, reader = readers.choose(options.reader)
        _log.info("nodes are read through %s", name)
        service = Service(reader, options.conf)
        service.favour_answers()
        asyncio.run(run(service, options.socket, options.interval))
    except (ServerError, SlurmError) as error:
        _log.error("%s", error)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vgpu-select", description=__doc__)
    add = parser.add_argument
    add(
        "--socket", metavar="PATH", default=SOCKET, type=Path,
        help="where the bridge in slurmctld asks (%(default)s)",
    )  # fmt: skip
    add(
        "--conf", metavar="FILE", default=paths.VGPU_CONF, type=Path,
        help="vgpu.conf (%(default)s)",
    )  # fmt: skip
    add(
        "--reader", choices=readers.NAMES, default="auto",
        help="how nodes are read: pyslurm if it fits the release, else scontrol's JSON or text",
    )  # fmt: skip
    add(
        "--interval", metavar="SECONDS", default=5.0, type=float,
        help="how often nodes are read (%(default)s)",
    )  # fmt: skip
    return parser
