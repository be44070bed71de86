"""What the tests of the simulated GPU share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A machine of two GPUs whose contexts take little, so that many processes fit."""
    path = tmp_path_factory.mktemp("machines") / "small.machine"
    path.write_text('machine=small context=1MiB\ngpu=0-1 name="Small" memory=2GiB sms=16\n')
    return str(path)
