"""Runs scontrol, with a limit on how long it may take."""

import subprocess
from collections.abc import Sequence

from pysched.slurm.model import SlurmError

TIMEOUT = 30.0


def run(arguments: Sequence[str], timeout: float = TIMEOUT) -> str:
    """What ``scontrol ARGUMENTS`` prints. Raises SlurmError with its own first sentence."""
    command = ["scontrol", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, check=False, errors="replace"
        )
    except OSError as error:
        raise SlurmError(f"scontrol cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise SlurmError(f"scontrol does not answer within {timeout:g} s") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().partition("\n")[0]
        raise SlurmError(f"{' '.join(command[:3])}: {said or f'exit code {done.returncode}'}")
    return done.stdout
