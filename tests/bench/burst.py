"""How soon a high-priority vGPU gets the card: 2 ms of work every 20 ms beside three others.

The three always want to run.
"""

import json
from pathlib import Path

from tests.bench.figures import Figure
from tests.bench.tenants import MS, PROGRAMS, Tenant, Tenants
from tests.bench.tenants import run as run_tenants

SLICE_MS, WORK_MS = 10, 2


def latencies(seconds: float, burst: bool) -> dict[str, float]:
    """Of the requests, ns; and what each tenant used of the card, 0..1."""
    pulse = (str(PROGRAMS / "pulse"), str(WORK_MS * MS), str(MS // 2), str(20 * MS), str(seconds))
    out = Path("/run/pulse.json")
    tenants = [Tenant(27, [("/bin/sh", "-c", f"{' '.join(pulse)} >{out}")], slice_ms=SLICE_MS)]
    tenants += [Tenant(27, [(str(PROGRAMS / "spin"), str(MS), "0")], slice_ms=SLICE_MS)] * 3

    def body(running: Tenants) -> dict[str, float]:
        if burst:
            running.set_burst(0)
        first = running.sample()
        running.wait(0)
        last = running.sample()
        answer = json.loads(out.read_text().splitlines()[-1])
        used = [(b - a) / (last.at - first.at) for a, b in zip(first.busy, last.busy, strict=True)]
        return {**answer, "others": sum(used[1:]) / 3}

    lines = "Burst=urgent Time=50ms Partition=urgent\n"
    return dict(run_tenants(tenants, body, conf=lines))


def run(quick: bool) -> list[Figure]:
    """Latency with and without the burst class."""
    seconds = 5.0 if quick else 20.0
    with_class, without = latencies(seconds, True), latencies(seconds, False)
    limit = (SLICE_MS + WORK_MS) * MS
    p99 = with_class["p99_ns"]
    return [
        Figure(
            "p99", p99 / MS, "ms", without["p99_ns"] / MS, f"at most {limit / MS:g}", p99 <= limit
        ),
        Figure("median", with_class["median_ns"] / MS, "ms", without["median_ns"] / MS),
        Figure(
            "share of each of the others", 100 * with_class["others"], "%", 100 * without["others"]
        ),
    ]
