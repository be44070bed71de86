"""What Slurm says of its nodes: one structure, three ways to read it."""

from pysched.slurm.model import NodeInfo, SlurmError

__all__ = ["NodeInfo", "SlurmError"]
