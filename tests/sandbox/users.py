"""The users of a sandbox: alice, bob, user1 ... user8."""

import shutil
from pathlib import Path

from tests.sandbox import kernel

FIRST_UID = 20001
NAMES = ("alice", "bob", *(f"user{number}" for number in range(1, 9)))


def add_users(etc: Path, home: Path) -> None:
    """Append the users to a private copy of the machine's account files and make their homes."""
    lines = {"passwd": "", "group": "", "shadow": ""}
    for uid, name in enumerate(NAMES, FIRST_UID):
        lines["passwd"] += f"{name}:x:{uid}:{uid}::/home/{name}:/bin/bash\n"
        lines["group"] += f"{name}:x:{uid}:\n"
        lines["shadow"] += f"{name}:*:19000:0:99999:7:::\n"
    for file, text in lines.items():
        with (etc / file).open("a") as stream:
            stream.write(text)
    with kernel.umask(0):
        for uid, name in enumerate(NAMES, FIRST_UID):
            (home / name).mkdir(0o700)
            shutil.chown(home / name, uid, uid)
