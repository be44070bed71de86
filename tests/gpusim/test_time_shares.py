"""GPU time as vgpud and the shim share it out on a simulated card.

No claim depends on how fast this machine is.
"""

import os
import signal
import time
from typing import Any

import pytest

from pysched.vgpud_client import Vgpud
from tests.bench.tenants import MS, PROGRAMS, Tenant, Tenants, run

SPIN = str(PROGRAMS / "spin")
PATHS = str(PROGRAMS / "paths")
LOOSE = 0.06  # of the card; the exact figures are in tests/bench and in the arbiter's own test


def spin(sms: float, *, ns: int = MS, max_sms: float | None = None, seconds: float = 0) -> Tenant:
    return Tenant(sms, [(SPIN, str(ns), str(seconds))], max_sms, slice_ms=5)


def shares(running: Tenants, seconds: float) -> list[float]:
    """What each tenant gets of the time that passes."""
    first, last = running.samples(seconds, seconds)
    return [(b - a) / (last.at - first.at) for a, b in zip(first.busy, last.busy, strict=True)]


def relative(found: list[float]) -> list[float]:
    return [share / sum(found) for share in found]


def started(running: Tenants) -> None:
    """Until every tenant has used some of the card."""
    while not all(running.sample().busy):
        for pid in running.all_pids():
            assert os.waitpid(pid, os.WNOHANG) == (0, 0), "a tenant has ended before it ran"
        time.sleep(0.05)


def test_that_two_that_want_all_get_what_they_are_guaranteed() -> None:
    def body(running: Tenants) -> list[float]:
        started(running)
        return relative(shares(running, 3))

    small, large = run([spin(27), spin(81)], body)
    assert small == pytest.approx(0.25, abs=LOOSE)
    assert large == pytest.approx(0.75, abs=LOOSE)


def test_that_a_maximum_holds_on_an_idle_card() -> None:
    def body(running: Tenants) -> list[float]:
        started(running)
        return shares(running, 3)

    (share,) = run([spin(15, max_sms=30)], body)
    assert share <= 30 / 108 * 1.01


def test_that_one_alone_may_use_the_whole_card() -> None:
    def body(running: Tenants) -> Any:
        started(running)
        before = next(iter(Vgpud().bindings()))
        time.sleep(1)
        after = next(iter(Vgpud().bindings()))
        return [before.switches, after.switches, after.launches - before.launches]

    before, after, launches = run([spin(10)], body)
    assert before == after, "nobody waits, and yet its gate is closed and opened"
    assert launches > 0


@pytest.mark.parametrize(
    "path",
    ["kernel_ptsz", "ex", "cooperative", "graph", "memset", "copy",
     "capture-global", "capture-thread", "capture-relaxed"],
)  # fmt: skip
def test_that_every_way_to_start_work_is_held_to_the_share(path: str) -> None:
    # One launch of the graph lasts 0.1 s; a window that holds few of them is mostly its edges.
    seconds = 6 if path == "graph" else 1.5

    def body(running: Tenants) -> list[float]:
        started(running)
        found = relative(shares(running, seconds))
        for pid in running.pids[0]:
            assert os.waitpid(pid, os.WNOHANG) == (0, 0), f"{path} has ended"
        return found

    (of_path, _) = run([Tenant(27, [(PATHS, path, str(MS), "60")], slice_ms=5), spin(81)], body)
    assert of_path <= 0.25 + LOOSE


def test_that_capturing_under_contention_fails_no_call() -> None:
    def body(running: Tenants) -> list[int]:
        return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in running.pids[0]]

    kinds = ("capture-global", "capture-thread", "capture-relaxed")
    commands = [(PATHS, kind, str(MS // 5), "1.5") for kind in kinds]
    assert run([Tenant(54, commands, slice_ms=5), spin(54)], body) == [0, 0, 0]


def test_that_processes_of_one_vgpu_share_its_share() -> None:
    def body(running: Tenants) -> list[float]:
        started(running)
        return relative(shares(running, 3))

    four = Tenant(27, [(SPIN, str(5 * MS), "0")] * 4, slice_ms=5)
    (of_four, _) = run([four, spin(81)], body)
    assert of_four == pytest.approx(0.25, abs=LOOSE)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_that_a_holder_that_dies_or_stops_does_not_keep_the_card(how: signal.Signals) -> None:
    def body(running: Tenants) -> float:
        started(running)
        os.kill(running.pids[0][0], how)
        time.sleep(0.5)
        return shares(running, 1)[1]

    assert run([spin(81), spin(27)], body) > 0.5


def test_that_a_stopped_process_goes_on_where_it_was() -> None:
    def body(running: Tenants) -> list[float]:
        started(running)
        os.kill(running.pids[0][0], signal.SIGSTOP)
        time.sleep(0.3)
        os.kill(running.pids[0][0], signal.SIGCONT)
        return relative(shares(running, 3))

    assert run([spin(54), spin(54)], body)[0] > 0.5 - LOOSE


def test_that_vgpud_may_be_killed_and_restarted_under_load() -> None:
    def body(running: Tenants) -> Any:
        started(running)
        for _ in range(4):
            running.daemon.stop(signal.SIGKILL)
            time.sleep(0.2)
            running.daemon.start()
            time.sleep(0.8)
        found = relative(shares(running, 2))
        return [found, [os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in running.all_pids()]]

    found, codes = run([spin(27, seconds=8), spin(81, seconds=8)], body)
    assert codes == [0, 0], "a call failed"
    assert found[0] == pytest.approx(0.25, abs=LOOSE)


def test_that_a_long_kernel_is_charged() -> None:
    def body(running: Tenants) -> list[float]:
        started(running)
        return relative(shares(running, 6))

    of_long, _ = run([spin(54, ns=500 * MS), spin(54)], body)
    assert of_long == pytest.approx(0.5, abs=0.12)


def test_that_a_pause_is_given_away() -> None:
    def body(running: Tenants) -> list[float]:
        started(running)
        return shares(running, 3)

    pulse = (str(PROGRAMS / "pulse"), str(3 * MS), str(MS // 2), str(30 * MS), "60")
    _, other = run([Tenant(54, [pulse], slice_ms=5), spin(54)], body)
    assert other > 0.5 + LOOSE


def test_that_a_policy_holds_at_once() -> None:
    def body(running: Tenants) -> list[float]:
        started(running)
        Vgpud().set_policy(100, max_sms=27)
        return relative(shares(running, 2))

    assert run([spin(27, max_sms=108), spin(27)], body)[0] <= 0.25 + LOOSE


def test_that_vgpud_charges_at_least_what_the_card_did_and_no_more_than_passed() -> None:
    def body(running: Tenants) -> Any:
        started(running)
        before = {b.job: b.used_ns for b in Vgpud().bindings()}
        first = running.sample()
        time.sleep(2)
        after = {b.job: b.used_ns for b in Vgpud().bindings()}
        last = running.sample()
        used = [after[job] - before[job] for job in sorted(after)]
        busy = [b - a for a, b in zip(first.busy, last.busy, strict=True)]
        return [used, busy, last.at - first.at]

    used, busy, passed = run([spin(27), spin(81)], body)
    for of_vgpud, of_card in zip(used, busy, strict=True):
        assert of_vgpud >= of_card * 0.9 - 20 * MS
    assert sum(used) <= passed * 1.05
