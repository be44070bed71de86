"""Tells systemd that a service is ready and alive (sd_notify), if it asked to be told."""

import os
import socket


def ready() -> None:
    _notify("READY=1")


def alive() -> None:
    """To be called at least every WatchdogSec= of the unit."""
    _notify("WATCHDOG=1")


def _notify(message: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        try:
            # A leading @ stands for the abstract namespace.
            out.connect("\0" + address[1:] if address.startswith("@") else address)
            out.send(message.encode())
        except OSError:
            return
