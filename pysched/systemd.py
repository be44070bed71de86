"""A service under systemd: tells it of being ready and alive (sd_notify), ends when told to."""

import os
import signal
import socket
import threading
import time


def ready() -> None:
    _notify("READY=1")


def alive() -> None:
    """To be called at least every WatchdogSec= of the unit."""
    _notify("WATCHDOG=1")


def end_of_service() -> threading.Event:
    """What is set when SIGTERM or SIGINT comes. To be called in the main thread."""
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.set())
    return end


def wait(end: threading.Event, seconds: float) -> bool:
    """``end.wait``, with a word to systemd as often as its watchdog wants one."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if end.wait(min(left, _watchdog_pace())):
            return True
        alive()
    return end.is_set()


def _watchdog_pace() -> float:
    """Half of WatchdogSec= of the unit; no limit where nobody watches."""
    ours = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    usec = os.environ.get("WATCHDOG_USEC", "")
    return int(usec) / 2e6 if ours and usec.isdecimal() and int(usec) else threading.TIMEOUT_MAX


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
