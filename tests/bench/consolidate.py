"""Four training jobs on one card, through real sbatch, against one job at a time on the whole card.

Each job keeps the GPU busy 31 % of its time: 31 ms of kernels, then 69 ms of host work, which
sleeps as I/O does.
"""

import json
from pathlib import Path

from tests.bench.figures import Figure
from tests.cluster.running import RunningCluster

MS = 1_000_000
GPU_MS, HOST_MS = 31, 69
JOBS = 4
PROGRAM = "/opt/slurm-vgpu/src/build/gpusim/programs/pulse"
PLAN = Path(__file__).with_name("quarter.plan.yaml")


def iterations(cluster: RunningCluster, jobs: int, seconds: float) -> tuple[list[int], float]:
    """Iterations that each of so many jobs got done at the same time, and how busy the GPU was."""
    work = f"{PROGRAM} {GPU_MS * MS} {MS} +{HOST_MS * MS} {seconds}"
    before = _busy(cluster)
    ids = [cluster.submit(f"exec {work}", "--gres=vgpu:1") for _ in range(jobs)]
    ended = [cluster.wait(job, timeout=seconds + 60) for job in ids]
    counts = [int(json.loads(job.output.splitlines()[-1])["requests"]) for job in ended]
    return counts, (_busy(cluster) - before) / 1e9 / seconds


def _busy(cluster: RunningCluster) -> int:
    return int(cluster.stat("n1")["gpus"][0]["busy_ns"])


def run(quick: bool) -> list[Figure]:
    """Work done in the same time, slow-down of a job, and how busy the GPU was."""
    seconds = 8.0 if quick else 30.0
    cluster = RunningCluster("--nodes", "1", "--machine", "single-16g", "--plan", str(PLAN))
    try:
        alone, busy_alone = iterations(cluster, 1, seconds)
        together, busy = iterations(cluster, JOBS, seconds)
    finally:
        cluster.close()
    gain = sum(together) / alone[0]
    slowest = alone[0] / min(together)
    return [
        Figure("work_done", gain, "x one at a time", 1.0, "at least 3.1", gain >= 3.1),
        Figure("slow_down_of_a_job", slowest, "x", 1.0),
        Figure("gpu_busy", 100 * busy, "%", 100 * busy_alone),
    ]
