"""Claims about where vGPUs go, through real Slurm on simulated machines of different kinds."""

from collections.abc import Iterator

import pytest

from pysched import segment
from tests.cluster import mixed
from tests.cluster.conftest import Clusters
from tests.cluster.running import RunningCluster
from tests.cluster.waiting import until, until_bound


@pytest.fixture
def cluster(clusters: Clusters) -> Iterator[RunningCluster]:
    cluster = mixed.start(clusters)
    yield cluster
    cluster.settle()


def fill_first_gpu(cluster: RunningCluster, node: str) -> None:
    """All slots of GPU 0 are taken, by single vGPUs that sit at home; the agent looks away."""
    cluster.ctl(node, "stop", "agent")
    sleeper = ("sleep 600", "-w", node, "--gres=vgpu:1")
    jobs = [cluster.submit(*sleeper, user="bob") for _ in range(5)]
    homes = {job: until_bound(cluster, node, job)[0]["gpu"] for job in jobs}
    cluster.check("scancel", *(str(job) for job, gpu in homes.items() if gpu != 0))
    until(lambda: [each["gpu"] for each in bound(cluster, node)] == [0, 0], "GPU 0 alone is full")
    cluster.ctl(node, "start", "agent")


def bound(cluster: RunningCluster, node: str) -> list[dict[str, int]]:
    return [each["vgpu"] for each in mixed.bindings(cluster, node)]


def test_that_two_vgpus_go_to_the_intact_pair(cluster: RunningCluster) -> None:
    fill_first_gpu(cluster, "pair1")
    job = cluster.submit("sleep 600", "-w", "pair1", "--gres=vgpu:2")
    # The slots that Slurm picked are at home on GPUs 1 and 2, which no NVLink joins.
    assert sorted(vgpu["slot"] for vgpu in until_bound(cluster, "pair1", job)) == [1, 2]
    assert sorted(mixed.gpus_of(cluster, job)) == [2, 3]
    cluster.check("scancel", str(job))
    assert sorted(mixed.placed(cluster, "pair1", 2)) == [2, 3]


@pytest.mark.parametrize(
    ("ranks", "comm", "worst"), [(8, "ring", 2), (4, "chain", 2), (4, "ring", 1), (2, "ring", 2)]
)
def test_that_ranks_of_a_cube_mesh_talk_over_its_best_links(
    cluster: RunningCluster, ranks: int, comm: str, worst: int
) -> None:
    """The double links of a DGX-1V are one ring of eight: a ring of four needs a single link."""
    gpus = mixed.placed(cluster, "mesh1", ranks, f"--vgpu-comm={comm}")
    found = mixed.links(gpus, ring=comm == "ring" and ranks > 2)
    assert len(set(gpus)) == ranks
    assert min(found) == worst and found.count(2) >= len(found) - (worst == 1)


def test_that_linked_vgpus_never_land_where_none_are(cluster: RunningCluster) -> None:
    jobs = [
        cluster.submit("sleep 0.2", "--gres=vgpu:4", "--vgpu-affinity=require_nvlink")
        for _ in range(8)
    ]
    for job in jobs:
        assert cluster.wait(job).state == "COMPLETED"
        assert cluster.job(job)["NodeList"] in ("sw1", "mesh1")
        assert "vgpu-nvlink4" in cluster.job(job)["Features"]


def test_that_a_user_cannot_drop_what_the_job_needs(cluster: RunningCluster) -> None:
    wish = "--vgpu-affinity=require_nvlink"
    job = cluster.submit("true", "--hold", "--gres=vgpu:4", wish)
    change = ("scontrol", "update", f"JobId={job}", "Features=vgpu-nvswitch|vgpu-pcie")
    cluster.check(*change, user="alice")
    assert cluster.job(job)["Features"] == "(vgpu-nvswitch|vgpu-pcie)&vgpu-nvlink4"


def test_that_what_no_node_can_link_is_refused_at_once(cluster: RunningCluster) -> None:
    done = cluster.run(
        "sbatch", "--gres=vgpu:p8g:2", "--vgpu-affinity=require_nvlink", "--wrap=true", user="alice"
    )
    assert done.returncode != 0
    assert done.stderr.splitlines()[0] == (
        "sbatch: error: vgpu: no node can ever give 2 vGPUs of type p8g on different GPUs that are "
        "all linked by NVLink; the most is 1 (pcie1)"
    )


def test_that_jobs_prefer_the_better_nodes_and_do_not_wait_for_them(
    cluster: RunningCluster,
) -> None:
    for node, likes in (("sw1", "vgpu-nvlink8"), ("mesh1", "vgpu-nvlink2"), ("pcie1", None)):
        until(lambda likes=likes: preferred(cluster) == likes, f"{likes} is preferred")
        job = cluster.submit("sleep 600", "--gres=vgpu:8")
        assert cluster.wait_for_state(job, "RUNNING")["NodeList"] == node
        rest = cluster.submit("sleep 600", "--gres=vgpu:8", "-w", node, user="bob")
        cluster.wait_for_state(rest, "RUNNING")


def preferred(cluster: RunningCluster) -> str | None:
    """What a job of eight vGPUs would prefer now."""
    job = cluster.submit("true", "--hold", "--gres=vgpu:8")
    comment = cluster.job(job).get("AdminComment", "")
    cluster.check("scancel", str(job))
    return segment.get_field(comment, "prefers")


def test_that_a_later_step_keeps_the_gpus_of_its_job(cluster: RunningCluster) -> None:
    gpus = mixed.placed(cluster, "pair2", 2, before="srun -n1 --exact --gres=vgpu:1 true")
    assert sorted(gpus) in ([0, 1], [2, 3])


def test_that_a_sites_own_extra_survives(cluster: RunningCluster) -> None:
    cluster.check("scontrol", "update", "NodeName=pair2", "Extra=rack 3")
    until(lambda: "Extra=rack 3 vgpu{1;" in show(cluster, "pair2"), "the agent reports again")
    assert "NVLink joins at most 2 GPUs" in cluster.check("vgpu", "topo", "--node", "pair2")


def show(cluster: RunningCluster, node: str) -> str:
    return cluster.check("scontrol", "show", "node", node)


@pytest.mark.parametrize("action", ["kill", "stop"])
def test_that_jobs_start_without_the_agent(cluster: RunningCluster, action: str) -> None:
    cluster.ctl("pair2", action, "agent")
    try:
        ended = cluster.sbatch("echo $CUDA_VISIBLE_DEVICES", "-w", "pair2", "--gres=vgpu:2")
        assert ended.state == "COMPLETED" and ended.output.count("GPU-") == 2
    finally:
        cluster.ctl("pair2", "start", "agent")


def test_that_jobs_start_while_the_agent_hangs(cluster: RunningCluster) -> None:
    pid = cluster.check("cat", "/run/minicluster/pair2/agent.pid").strip()
    cluster.check("kill", "-STOP", pid)
    try:
        ended = cluster.sbatch("echo $CUDA_VISIBLE_DEVICES", "-w", "pair2", "--gres=vgpu:2")
        assert ended.state == "COMPLETED" and ended.output.count("GPU-") == 2
    finally:
        cluster.check("kill", "-CONT", pid)
