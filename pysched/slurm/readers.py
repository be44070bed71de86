"""Which way to read Slurm's nodes here: pyslurm if it fits, else scontrol as the release allows."""

import importlib
import re
from collections.abc import Callable

from pysched.slurm import scontrol, scontrol_json, scontrol_text, with_pyslurm
from pysched.slurm.model import NodeInfo, SlurmError

Reader = Callable[[], list[NodeInfo]]

FIRST_JSON = (24, 11)
NAMES = ("auto", "pyslurm", "json", "text")

_RELEASE = re.compile(r"slurm(?:-wlm)? ([0-9]+)\.([0-9]+)")


def choose(name: str = "auto") -> tuple[str, Reader]:
    """The reader of this name, or the best one that works here; with its name."""
    if name in ("auto", "pyslurm"):
        pyslurm = _pyslurm()
        if pyslurm is not None:
            return "pyslurm", pyslurm
        if name == "pyslurm":
            raise SlurmError("pyslurm is not installed, or not for this release of Slurm")
    if name == "json" or (name == "auto" and release() >= FIRST_JSON):
        return "json", scontrol_json.nodes
    return "text", scontrol_text.nodes


def release() -> tuple[int, int]:
    """Major and minor number of the installed Slurm."""
    printed = scontrol.run(["--version"])
    match = _RELEASE.match(printed)
    if match is None:
        raise SlurmError(f"scontrol --version says {printed.strip()!r}")
    return int(match[1]), int(match[2])


def _pyslurm() -> Reader | None:
    """pyslurm, if it can be loaded and asked."""
    try:
        pyslurm = importlib.import_module("pyslurm")
        with_pyslurm.nodes(pyslurm)
    except (ImportError, SlurmError):
        return None
    return lambda: with_pyslurm.nodes(pyslurm)
