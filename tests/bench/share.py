"""Shares of GPU time against entitlements; the simulator's busy time is the oracle.

Entitlement is water-filling of guarantees and maxima over those who want to run, in parts of the
whole card. An error is in points of the card: of the time it delivered, or, where the maxima leave
some of it idle, of the time that passed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.figures import Figure
from tests.bench.tenants import (
    MS,
    NONE,
    OURS,
    PROGRAMS,
    Sample,
    Shim,
    Tenant,
    Tenants,
)
from tests.bench.tenants import run as run_tenants

WARM_UP = 1.0
SMALL_KERNEL = 1 * MS
EVERY = 0.25


@dataclass(frozen=True)
class Case:
    """Tenants that all want to run, always."""

    parts: tuple[float, ...]  # of 108 SMs
    kernels: tuple[int, ...]  # ns; dealt out to the tenants in turn
    sms: int = 108
    sync: int = 0
    procs: int = 1
    grid: int = 64
    slice_ms: int = 10
    max_sms: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        parts = ":".join(f"{part:g}" for part in self.parts)
        kernels = "/".join(f"{ns / MS:g}" for ns in self.kernels)
        extra = f" max {':'.join(f'{m:g}' for m in self.max_sms)}" if self.max_sms else ""
        return (
            f"{parts} of 108{extra}, kernels {kernels} ms, {self.sms} SMs, grid {self.grid}, "
            f"{self.procs} processes, sync {self.sync or 'never'}, slice {self.slice_ms} ms"
        )

    def tenants(self) -> list[Tenant]:
        """One for each part."""
        found = []
        for index, part in enumerate(self.parts):
            ns = self.kernels[index % len(self.kernels)]
            spin = (str(PROGRAMS / "spin"), str(ns), "0", str(self.sync), str(self.grid))
            scale = self.sms / 108
            limit = self.max_sms[index] * scale if self.max_sms else None
            found.append(Tenant(part * scale, [spin] * self.procs, limit, self.slice_ms))
        return found

    def entitlements(self) -> list[float]:
        """Parts of the card, 0..1, as whole SMs were configured."""
        tenants = self.tenants()
        guaranteed = [float(round(t.sms)) for t in tenants]
        return fill(self.sms, guaranteed, [float(round(t.max_sms or self.sms)) for t in tenants])


@dataclass(frozen=True)
class Errors:
    """The worst of a case."""

    points_10s: float
    points_1s: float
    relative_10s: float  # of the entitlement itself, per cent
    busy: float


def fill(total: float, guaranteed: Sequence[float], maximum: Sequence[float]) -> list[float]:
    """Water-filling: min(maximum, lambda x guaranteed), lambda as large as fits; parts of total."""
    low, high = 0.0, total / min(guaranteed)
    for _ in range(100):
        middle = (low + high) / 2
        used = sum(min(m, middle * g) for g, m in zip(guaranteed, maximum, strict=True))
        low, high = (middle, high) if used <= total else (low, middle)
    return [min(m, low * g) / total for g, m in zip(guaranteed, maximum, strict=True)]


def errors(samples: Sequence[Sample], entitled: Sequence[float]) -> Errors:
    """Over the whole span, and over every window of 1 s in it."""
    idle = sum(entitled) < 0.999
    per_second = round(1 / EVERY)
    whole = _off(samples[0], samples[-1], entitled, idle)
    windows = [
        _off(a, b, entitled, idle) for a, b in zip(samples, samples[per_second:], strict=False)
    ]
    relative = max(off / share for off, share in zip(whole, entitled, strict=True))
    wall = samples[-1].at - samples[0].at
    busy = sum(b - a for a, b in zip(samples[0].busy, samples[-1].busy, strict=True)) / wall
    worst = max(max(window) for window in windows)
    return Errors(100 * max(whole), 100 * worst, 100 * relative, busy)


def _off(a: Sample, b: Sample, entitled: Sequence[float], idle: bool) -> list[float]:
    used = [y - x for x, y in zip(a.busy, b.busy, strict=True)]
    whole = b.at - a.at if idle else max(1, sum(used))
    return [abs(u / whole - share) for u, share in zip(used, entitled, strict=True)]


def measure(case: Case, seconds: float, shim: Shim = OURS) -> Errors:
    """Run the case."""

    def body(running: Tenants) -> list[list[int]]:
        running.samples(WARM_UP, WARM_UP)
        return [[s.at, *s.busy] for s in running.samples(seconds, EVERY)]

    rows = run_tenants(case.tenants(), body, sms=case.sms, shim=shim)
    return errors([Sample(at, tuple(busy)) for at, *busy in rows], case.entitlements())


SPLITS = ((10.8, 97.2), (32.4, 75.6), (54, 54), (15, 15, 10), (13.5,) * 8)
KERNELS = ((MS // 10,), (MS,), (5 * MS,), (20 * MS,), (MS // 10, 20 * MS), (MS, 5 * MS))
QUICK = (
    Case((10.8, 97.2), (MS,)),
    Case((15, 15, 10), (MS // 10,), grid=65536, sync=16),
    Case((54, 54), (20 * MS,), procs=2),
    Case((15,), (MS,), max_sms=(30,)),
)


def sample_of_30() -> list[Case]:
    """Every two values of the matrix appear together about once; deterministic."""
    grids, sms, syncs, procs, slices = (
        (64, 1024, 65536),
        (20, 68, 108, 132),
        (1, 16, 0),
        (1, 2, 4, 3),
        (10, 5),
    )
    cases = []
    for i, split in enumerate(SPLITS):
        for j, kernels in enumerate(KERNELS):
            n = i * len(KERNELS) + j
            sync = syncs[(i + j) % 3]
            if len(kernels) > 1 and sync == 1:
                sync = 0  # busy time is not lease time then: the pauses differ
            cases.append(
                Case(
                    split,
                    kernels,
                    sms=sms[(i + 2 * j) % 4] if len(split) < 8 else 108,
                    sync=sync,
                    procs=procs[n % 4] if len(split) < 8 else 1,
                    grid=grids[(2 * i + j) % 3],
                    slice_ms=slices[n % 2],
                )
            )
    return cases


def run(quick: bool, shim: str | None = None, shim_env: Sequence[str] = ()) -> list[Figure]:
    """The worst errors, each case, and some without a shim (and with another one, if given)."""
    cases = QUICK if quick else sample_of_30()
    seconds = 6 if quick else 10
    figures, measured = [], []
    for case in cases:
        found = measure(case, seconds)
        measured.append((case, found))
        figures.append(Figure(f"vgpu: {case.name}", found.points_10s, "points"))
    compared = cases[: 1 if quick else 3]
    others = [NONE]
    if shim:
        others.append(Shim("other", shim, dict(pair.split("=", 1) for pair in shim_env)))
    for other in others:
        for case in compared:
            found = measure(case, seconds, other)
            figures.append(Figure(f"{other.name}: {case.name}", found.points_10s, "points"))
    return worst(measured) + figures


def worst(measured: Sequence[tuple[Case, Errors]]) -> list[Figure]:
    """What is promised, of the worst case."""
    ten = max(e.points_10s for _, e in measured)
    one = max(e.points_1s for _, e in measured)
    small = [e.relative_10s for case, e in measured if max(case.kernels) <= SMALL_KERNEL]
    relative = max(small)
    return [
        Figure("worst_error_10s", ten, "points", promise="at most 0.5", holds=ten <= 0.5),
        Figure("worst_error_1s", one, "points", promise="at most 3", holds=one <= 3),
        Figure(
            "worst_relative_10s",
            relative,
            "%",
            promise="at most 1, kernels up to 1 ms",
            holds=relative <= 1,
        ),
    ]
