"""A topology from a text of either kind: what nvidia-smi prints, or the report of a node."""

import re

from pysched import segment
from pysched.topology import report, smi
from pysched.topology.model import Topology

_REPORT = re.compile(r"\s*[0-9]+;")


def parse(text: str, source: str) -> Topology:
    """Read whichever the text is. Raises TopologyError; ``source`` names the text in it."""
    held = segment.read(text)
    if held is not None:
        return report.read(held, source)
    if _REPORT.match(text):
        return report.read(text.strip(), source)
    return smi.read(text, source)
