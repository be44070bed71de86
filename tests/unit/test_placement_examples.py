"""The examples in docstrings of topology, placement, the agent and vgpu-select hold."""

import doctest
import importlib

import pytest

MODULES = (
    "pysched.segment",
    "pysched.placement.patterns",
    "pysched.select.features",
    "pysched.select.gres",
    "pysched.slurm.model",
    "pysched.topology.model",
    "pysched.topology.text",
)


@pytest.mark.parametrize("name", MODULES)
def test_that_the_examples_hold_of(name: str) -> None:
    tried = doctest.testmod(importlib.import_module(name))
    assert tried.attempted > 0 and tried.failed == 0
