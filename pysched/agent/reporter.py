"""Keeps the node's topology in its Extra, where vgpu-select and everybody else can read it."""

import logging
import re

from pysched import segment
from pysched.slurm import SlurmError, scontrol

_EXTRA = re.compile(r"(?m)^\s*Extra=(.*)$")
_log = logging.getLogger(__name__)


def report(node: str, text: str) -> bool:
    """Make sure that our segment of the node's Extra holds the text. True if it had to be written.

    What the site keeps in Extra stays. Raises SlurmError.
    """
    extra = read(node)
    if segment.read(extra) == text:
        return False
    scontrol.run(["update", f"NodeName={node}", f"Extra={segment.put(extra, text)}"])
    _log.info("node %s: topology reported to Slurm", node)
    return True


def read(node: str) -> str:
    """The node's whole Extra."""
    printed = scontrol.run(["show", "node", node])
    if f"NodeName={node} " not in printed:
        raise SlurmError(f"scontrol show node {node}: no such node")
    found = _EXTRA.search(printed)
    return found[1] if found else ""
