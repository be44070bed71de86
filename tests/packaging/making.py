"""Call make as a person would, from within a test that a make may have started."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def make(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    # What runs us is not to pass its own variables on.
    env = {
        key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))
    }
    done = subprocess.run(
        ["make", "--silent", "-C", str(ROOT), *words],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 or not check, f"{done.stdout}{done.stderr}"
    return done
