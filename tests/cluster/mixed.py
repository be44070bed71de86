"""The mixed cluster: what it is made of, and how tests look at placements there."""

import json
from pathlib import Path

from pysched import segment
from tests.cluster.conftest import Clusters
from tests.cluster.running import PYTHON, RunningCluster
from tests.cluster.waiting import until

PLAN = Path(__file__).with_name("mixed.plan.yaml")
TRIES = 5
LIST_GPUS = """
import json, pynvml
pynvml.nvmlInit()
handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
print(json.dumps([pynvml.nvmlDeviceGetUUID(handle) for handle in handles]))
"""
NODES = ("mesh1", "pair1", "pair2", "pcie1", "sw1")
MACHINES = (
    *("--machine", "sw1=dgx-a100"),
    *("--machine", "pair[1-2]=a100-pcie-4"),
    *("--machine", "pcie1=pcie-8"),
    *("--machine", "mesh1=dgx-1v"),
)
MESH = {
    1: {(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)},
    2: {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)},
}


def start(clusters: Clusters) -> RunningCluster:
    """The cluster, once its agents have reported and vgpu-select knows what they said."""
    cluster = clusters("--services", "--plan", str(PLAN), *MACHINES)
    until(lambda: set(reported(cluster)) == set(NODES), "all nodes have reported")
    until(lambda: knows_links(cluster), "vgpu-select knows how GPUs are linked")
    return cluster


def reported(cluster: RunningCluster) -> list[str]:
    nodes = cluster.check("scontrol", "show", "node").split("\n\n")
    return [node.split()[0].partition("=")[2] for node in nodes if "vgpu{1;" in node]


def knows_links(cluster: RunningCluster) -> bool:
    """Whether all reports are known: five GPUs of one NUMA node exist only where none is."""
    wish = "--vgpu-affinity=same_numa"
    done = cluster.run("sbatch", "--hold", "--gres=vgpu:5", wish, "--wrap=true", user="alice")
    return "the most is 4 (" in done.stderr


def gpus_of(cluster: RunningCluster, job: int) -> list[int]:
    """The GPUs of a job in the order of its ranks, as its AdminComment says."""

    def look() -> str:
        comment = cluster.job(job).get("AdminComment", "")
        return segment.get_field(comment, "gpus") or ""

    _, _, gpus = until(look, f"job {job} says where it is").partition(":")
    return [int(gpu) for gpu in gpus.split(",")]


def links(gpus: list[int], ring: bool) -> list[int]:
    """NVLinks of the cube mesh between neighbours."""
    pairs = list(zip(gpus, gpus[1:] + gpus[:1] if ring else gpus[1:], strict=ring))
    return [
        next((count for count, there in MESH.items() if tuple(sorted(pair)) in there), 0)
        for pair in pairs
    ]


def placed(
    cluster: RunningCluster, node: str, ranks: int, *options: str, before: str = "true"
) -> list[int]:
    """Run a task for each vGPU of a job. The GPUs by rank, as the comment and the tasks say alike.

    Advice that comes too late is no advice, which a busy machine may need to be forgiven for.
    """
    script = f"{before}; srun --overlap sh -c 'echo $SLURM_PROCID $CUDA_VISIBLE_DEVICES'; sleep 1"
    for _ in range(TRIES):
        job = cluster.submit(script, "-w", node, f"-n{ranks}", f"--gres=vgpu:{ranks}", *options)
        said = gpus_of(cluster, job)
        output = until(lambda job=job: output_of(cluster, job, ranks), "the tasks have spoken")
        seen = first_gpus(cluster, node, output)
        ended = cluster.wait(job)
        assert ended.state == "COMPLETED", ended
        assert sorted(seen) == sorted(said)
        if "why=" in cluster.job(job)["AdminComment"] and seen == said:
            return said
    raise AssertionError(f"no job in {TRIES} was advised")


def output_of(cluster: RunningCluster, job: int, lines: int) -> str:
    """What the job has written, once it is so many lines."""
    path = cluster.path(cluster.job(job)["StdOut"])
    text = path.read_text() if path.exists() else ""
    return text if text.count("\n") >= lines else ""


def first_gpus(cluster: RunningCluster, node: str, output: str) -> list[int]:
    """The GPU that comes first for each rank: lines "RANK CUDA_VISIBLE_DEVICES" of its tasks."""
    gpus = json.loads(cluster.check(PYTHON, "-c", LIST_GPUS, node=node))
    minors = dict(zip(gpus, range(len(gpus)), strict=True))
    ranks = dict(line.split() for line in output.splitlines() if line[:1].isdigit())
    return [minors[ranks[str(rank)].split(",")[0]] for rank in range(len(ranks))]


def bindings(cluster: RunningCluster, node: str) -> list[dict[str, dict[str, int]]]:
    printed = cluster.check("vgpu", "ps", "--json", "--runtime-dir", f"/run/vgpu/{node}")
    return list(json.loads(printed))
