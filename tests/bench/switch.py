"""What switching costs: throughput of contended vGPUs against one exclusive process."""

from tests.bench.figures import Figure, median_of
from tests.bench.tenants import MS, NONE, OURS, PROGRAMS, Shim, Tenant, Tenants
from tests.bench.tenants import run as run_tenants

PROMISES = {5: 0.97, 10: 0.99}


def busy(tenants: list[Tenant], seconds: float, shim: Shim = OURS) -> float:
    """Part of the time in which the card was busy."""

    def body(running: Tenants) -> float:
        running.samples(1.0, 1.0)
        first, last = running.samples(seconds, seconds)
        return (sum(last.busy) - sum(first.busy)) / (last.at - first.at)

    return float(run_tenants(tenants, body, shim=shim))


def spin(ns: int, sms: float, slice_ms: int) -> Tenant:
    """A saturating tenant."""
    return Tenant(sms, [(str(PROGRAMS / "spin"), str(ns), "0")], slice_ms=slice_ms)


def run(quick: bool) -> list[Figure]:
    """Two equal and three unequal tenants at 5 and 10 ms, one alone, and one without the shim."""
    seconds, runs = (2.0, 1) if quick else (5.0, 3)
    exclusive = median_of(lambda: busy([spin(MS, 108, 10)], seconds, NONE), runs)
    alone = median_of(lambda: busy([spin(MS, 30, 10)], seconds), runs) / exclusive
    figures = [
        Figure(
            "alone_with_boost", alone, "of exclusive", exclusive, "at least 0.998", alone >= 0.998
        )
    ]
    for slice_ms, promise in PROMISES.items():
        for parts in ((54, 54), (15, 15, 10)):
            tenants = [spin(MS, part, slice_ms) for part in parts]
            value = median_of(lambda tenants=tenants: busy(tenants, seconds), runs) / exclusive
            name = f"{':'.join(map(str, parts))} at {slice_ms} ms"
            figures.append(
                Figure(
                    name, value, "of exclusive", exclusive, f"at least {promise}", value >= promise
                )
            )
    return figures
