"""A step asks its node's agent which GPUs to take; the answer is welcome and never needed."""

import json

import pytest

from tests.cluster.running import RunningCluster
from tests.cluster.waiting import admin_comment, agent, end, until_bound

pytestmark = pytest.mark.slurm_interface

AGENT = "/run/vgpu/n1/agent.sock"


def bound_gpus(cluster: RunningCluster, job: int) -> list[int]:
    return [vgpu["gpu"] for vgpu in until_bound(cluster, "n1", job)]


def start(cluster: RunningCluster, *options: str) -> int:
    job = cluster.submit("sleep 60", "-w", "n1", *options)
    cluster.wait_for_state(job, "RUNNING")
    return job


def test_advice_is_followed_and_told(cluster: RunningCluster) -> None:
    with agent(cluster, "n1", '{"gpus":[3,2],"why":"a ring; of two"}') as questions:
        job = start(cluster, "--gres=vgpu:2", "--vgpu-comm=ring", "-n2")
        gpus = bound_gpus(cluster, job)
    assert sorted(gpus) == [2, 3]
    told, slots, why = admin_comment(cluster, job).split(";")
    assert (told, why) == ("vgpu{gpus=n1:3,2", "why=a ring  of two}")
    assert slots in ("slots=0,1", "slots=1,0")
    question = json.loads(questions[0])
    cores = question.pop("cores")
    assert question == {
        "job": job, "step": 0xFFFFFFFB, "slots": [0, 1], "n": 2, "comm": "ring", "affinity": "none",
    }  # fmt: skip
    assert cores


def test_a_matrix_in_a_file_of_the_users_reaches_the_agent(cluster: RunningCluster) -> None:
    cluster.check("sh", "-c", "printf '0 1\\n2 0\\n' >private && chmod 600 private", user="alice")
    with agent(cluster, "n1", '{"gpus":[]}') as questions:
        bound_gpus(cluster, start(cluster, "--gres=vgpu:2", "--vgpu-comm=private"))
    assert json.loads(questions[0])["comm"] == [[0, 1], [2, 0]]


@pytest.mark.parametrize(
    "answer",
    [
        '{"gpus":[2,2]}',
        '{"gpus":[9,8]}',
        '{"gpus":[1]}',
        '{"gpus":[0,1',
        "garbage",
        "",
        json.dumps({"gpus": [0, 1], "why": "x" * 100000}),
    ],
    ids=["twice", "unknown", "too few", "half", "garbage", "empty", "too long"],
)
def test_bad_advice_costs_nothing_but_the_advice(cluster: RunningCluster, answer: str) -> None:
    with agent(cluster, "n1", answer):
        done = cluster.srun("-w", "n1", "--gres=vgpu:2", "printenv", "CUDA_VISIBLE_DEVICES")
    assert (done.returncode, done.stderr, done.stdout.count("GPU-")) == (0, "", 2)


def test_an_agent_that_hangs_costs_nothing_but_the_advice(cluster: RunningCluster) -> None:
    listen = f"""if True:
        import socket, time
        server = socket.socket(socket.AF_UNIX)
        server.bind("{AGENT}")
        server.listen()
        print(flush=True)
        time.sleep(60)
    """
    process = cluster.popen("python3", "-c", listen)
    assert process.stdout is not None
    process.stdout.readline()
    done = cluster.srun("-w", "n1", "--gres=vgpu:2", "printenv", "CUDA_VISIBLE_DEVICES")
    end(process)
    cluster.check("rm", AGENT)
    assert (done.returncode, done.stderr, done.stdout.count("GPU-")) == (0, "", 2)
