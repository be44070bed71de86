"""How long a step takes to start, with slurm-vgpu and without: `srun true` inside a running job.

Without: a second cluster of the same kind that has nothing of the suite in its configuration.
"""

import statistics
import time

from tests.bench.figures import Figure
from tests.cluster.running import RunningCluster

PROMISE_MS = 20.0
SCRIPT = """import subprocess, sys, time
times = []
for _ in range(int(sys.argv[1])):
    start = time.monotonic()
    subprocess.run(["srun", "--exact", "-n1", *sys.argv[2:], "true"], check=True)
    times.append(time.monotonic() - start)
print(*times)
"""


def starts(cluster: RunningCluster, runs: int, *options: str) -> list[float]:
    """Milliseconds of each step of one job."""
    job = cluster.sbatch(
        f"exec /usr/bin/python3 -c '{SCRIPT}' {runs} {' '.join(options)}",
        "--nodelist=n1", *(o for o in options if "gres" in o), timeout=120,
    )  # fmt: skip
    assert job.exit_code == 0, job.output
    return [1000 * float(word) for word in job.output.split()]


def run(quick: bool) -> list[Figure]:
    """Medians; alternating, so that noise meets both."""
    rounds, runs = (2, 5) if quick else (4, 10)
    ours, bare = RunningCluster("--nodes", "1"), RunningCluster("--nodes", "1", "--plan", "none")
    with_vgpu, without = [], []
    try:
        for _ in range(rounds):
            with_vgpu += starts(ours, runs, "--gres=vgpu:1")
            without += starts(bare, runs)
            time.sleep(0.1)
    finally:
        ours.close()
        bare.close()
    base = statistics.median(without)
    added = statistics.median(with_vgpu) - base
    return [
        Figure("added", added, "ms", base, f"at most {PROMISE_MS:g}", added <= PROMISE_MS),
        Figure("with_a_vgpu", statistics.median(with_vgpu), "ms", base),
    ]
