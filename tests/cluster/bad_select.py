"""A vgpu-select that answers badly: bad_select.py HOW, one of the ways below.

Prints a line when it listens.
"""

import socket
import sys
import time
from pathlib import Path

SOCKET = Path("/run/vgpu-select/select.sock")
ANSWERS = {
    "nothing": b"",
    "garbage": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "half": b"0010accept",
    "megabytes": b"x" * 10_000_000,
}


def main(how: str) -> None:
    SOCKET.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(SOCKET))
    SOCKET.chmod(0o666)
    listener.listen(64)
    print("listening", flush=True)
    kept = []
    while True:
        client, _ = listener.accept()
        kept.append(client)
        try:
            client.recv(1 << 16)
            client.sendall(ANSWERS[how])
        except OSError:
            time.sleep(0.01)


main(sys.argv[1])
