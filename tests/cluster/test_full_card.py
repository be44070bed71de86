"""One 16 GiB card in eight vGPUs of 2 GiB, all in use at once by eight users."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import Clusters
from tests.cluster.running import RunningCluster, lines

PLAN = Path(__file__).with_name("plans") / "card-16g.plan.yaml"
USERS = [f"user{number}" for number in range(1, 9)]
CARD, QUOTA, CONTEXT = 16 << 30, 2 << 30, 256 << 20


@pytest.fixture
def card(clusters: Clusters) -> Iterator[RunningCluster]:
    cluster = clusters("--machine", "single-16g", "--plan", str(PLAN))
    yield cluster
    cluster.settle()


def test_eight_users_fill_a_card_and_each_is_held_to_its_part(card: RunningCluster) -> None:
    script = "cuprobe fill=64M info sleep=600000"
    jobs = {user: card.submit(script, "--gres=vgpu:1", user=user) for user in USERS}
    for user, job in jobs.items():
        fill, info = printed(card, user, job, 2)
        assert (fill["result"], fill["bytes"]) == (2, QUOTA - CONTEXT)
        assert (info["free"], info["total"]) == (0, QUOTA)
    (gpu,) = card.stat("n1")["gpus"]
    assert gpu["used"] == CARD
    assert [process["bytes"] for process in gpu["processes"]] == [QUOTA] * len(USERS)
    assert len({process["uid"] for process in gpu["processes"]}) == len(USERS)
    assert {vgpu["job"] for vgpu in card.vgpus("n1")} == set(jobs.values())
    card.settle()
    assert card.stat("n1")["gpus"][0]["used"] == 0


def printed(card: RunningCluster, user: str, job: int, count: int) -> list[dict[str, int]]:
    """The lines of the job's output, once there are so many."""
    output = card.path(f"/home/{user}/{job}.out")
    deadline = time.monotonic() + 30
    while not output.exists() or len(lines(output.read_text())) < count:
        assert time.monotonic() < deadline, card.job(job)
        time.sleep(0.05)
    return lines(output.read_text())
