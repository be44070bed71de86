"""vgpu-select: says at submit whether a request for vGPUs makes sense, and where it fits best."""

import argparse
import logging
import sys
import time
from pathlib import Path

from pysched import paths, systemd
from pysched.lineserver import LineServer, ServerError
from pysched.select.service import Service
from pysched.slurm import SlurmError, readers

SOCKET = Path("/run/vgpu-select/select.sock")
REST = 10
"""How many times as long as reading the nodes took nobody reads them again, at least."""

SWITCH_INTERVAL = 0.0002
"""Seconds after which the thread that reads the cluster lets an answer go first."""

_log = logging.getLogger("vgpu-select")


def run(service: Service, socket: Path, interval: float) -> None:
    """Serve until told to stop."""
    end = systemd.end_of_service()
    server = LineServer(socket, service.answer)
    server.start()
    systemd.ready()
    while server.is_alive():
        systemd.alive()
        start = time.monotonic()
        service.renew()
        # A large cluster takes long to read, for slurmctld too: that is not to be its main work.
        if systemd.wait(end, max(interval, REST * (time.monotonic() - start))):
            break
    server.close()


def main() -> int:
    options = _parser().parse_args()
    logging.basicConfig(format="vgpu-select: %(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        name, reader = readers.choose(options.reader)
        _log.info("nodes are read through %s", name)
        sys.setswitchinterval(SWITCH_INTERVAL)
        run(Service(reader, options.conf), options.socket, options.interval)
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
