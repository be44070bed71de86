"""Which GPUs a step's ranks get, and in which order."""

from pysched.placement.engine import place
from pysched.placement.request import Affinity, Placement, PlacementError, Policy, Request

__all__ = ["Affinity", "Placement", "PlacementError", "Policy", "Request", "place"]
