"""How the GPUs of one machine are linked: the model, and what reads and writes it."""

from pysched.topology.model import Gpu, Link, Nic, Path, Topology, TopologyError

__all__ = ["Gpu", "Link", "Nic", "Path", "Topology", "TopologyError"]
