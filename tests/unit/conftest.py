"""Fixtures of the unit tests."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from tests.unit.vgpud_node import ROOT, Child, Node, running_node


@pytest.fixture(scope="session")
def built() -> None:
    """What the tests of vgpud run."""
    subprocess.run(["make", "-s", "build-unit-tests"], cwd=ROOT, check=True, timeout=280)


@pytest.fixture
def node(built: None) -> Iterator[Node]:
    """A running vgpud with two GPUs of four slots each."""
    with running_node() as node:
        yield node


@pytest.fixture
def child() -> Iterator[Callable[[], Child]]:
    """Makes processes that are gone when the test is over."""
    with ExitStack() as stack:

        def make() -> Child:
            return stack.enter_context(closing(Child()))

        yield make
