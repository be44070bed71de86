"""What the tests of the simulated GPU share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gpusim.step import Step


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A machine of two GPUs whose contexts take little, so that many processes fit."""
    path = tmp_path_factory.mktemp("machines") / "small.machine"
    path.write_text('machine=small context=1MiB\ngpu=0-1 name="Small" memory=2GiB sms=16\n')
    return str(path)


@pytest.fixture(scope="module")
def step(request: pytest.FixtureRequest) -> Iterator[Step]:
    """A step with the vGPUs that the module names as VGPUS, or one of 1 GiB."""
    with Step(getattr(request.module, "VGPUS", ("1GiB",))) as step:
        yield step


@pytest.fixture(scope="module")
def native() -> Iterator[Step]:
    """The simulated driver without the shim."""
    with Step(()) as native:
        yield native
