"""The main job: `sbatch --gres=vgpu:2` holds two vGPUs and cannot take more than they have."""

import json

import pytest

from tests.cluster.running import PYTHON, RunningCluster, lines

QUOTA = 4 << 30
CONTEXT = 256 << 20  # of a simulated machine, unless it says otherwise
ROOM = QUOTA - CONTEXT
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
PYPROBE = "/opt/slurm-vgpu/src/tests/cluster/programs/pyprobe.py"


@pytest.mark.slurm_interface
@pytest.mark.parametrize("program", ["cuprobe", "cuprobe-linked"])
def test_a_job_with_two_vgpus_sees_two_gpus_as_large_as_its_quota(
    cluster: RunningCluster, program: str
) -> None:
    job = cluster.sbatch(f"{program} devices info use=1 info", "--gres=vgpu:2")
    assert (job.state, job.exit_code) == ("COMPLETED", 0), job.output
    devices, first, _, second = lines(job.output)
    assert len({device["uuid"] for device in devices["devices"]}) == 2
    assert [device["total"] for device in devices["devices"]] == [QUOTA, QUOTA]
    assert [first["total"], second["total"]] == [QUOTA, QUOTA]
    assert [first["free"], second["free"]] == [ROOM, ROOM]


@pytest.mark.parametrize("kind", ["linear", "pitch", "managed"])
@pytest.mark.parametrize("program", ["cuprobe", "cuprobe-linked"])
def test_the_quota_can_be_taken_to_its_last_byte_and_no_further(
    cluster: RunningCluster, program: str, kind: str
) -> None:
    actions = (
        f"alloc={ROOM}:{kind} alloc=65536:{kind} info free alloc={ROOM}:{kind} free launch=1000"
    )
    job = cluster.sbatch(f"{program} {actions}", "--gres=vgpu:1")
    whole, refused, info, free, again, _, launch = lines(job.output)
    assert (whole["result"], refused["result"]) == (0, OUT_OF_MEMORY)
    assert info["free"] == 0
    # It was told no, and goes on.
    assert (free["result"], again["result"], launch["result"]) == (0, 0, 0)


@pytest.mark.parametrize("granule", [512, 1 << 20, 64 << 20])
def test_the_simulator_counts_exactly_the_quota_and_nothing_afterwards(
    cluster: RunningCluster, granule: int
) -> None:
    # The most of it in large blocks, so that small ones end soon.
    actions = ("devices", f"alloc={ROOM - (64 << 20)}", f"fill={granule}")
    with cluster.holding(*actions, options=["--gres=vgpu:1", "-w", "n1"]) as held:
        devices, most, rest = held.lines
        assert (most["result"], rest["result"]) == (0, OUT_OF_MEMORY)
        assert rest["bytes"] == 64 << 20
        uuid = devices["devices"][0]["uuid"]
        gpu = cluster.gpu("n1", uuid)
        assert gpu["used"] == QUOTA
        (vgpu,) = cluster.vgpus("n1")
        assert (vgpu["charged"], vgpu["driver"], vgpu["vgpu"]["gpu_uuid"]) == (QUOTA, QUOTA, uuid)
    cluster.settle()
    assert cluster.gpu("n1", uuid)["used"] == 0
    assert cluster.vgpus("n1") == []


def test_an_unmodified_python_program_sees_the_same(cluster: RunningCluster) -> None:
    job = cluster.sbatch(f"{PYTHON} {PYPROBE}", "--gres=vgpu:2")
    assert job.exit_code == 0, job.output
    seen = json.loads(job.output)
    assert [device["total"] for device in seen["devices"]] == [QUOTA, QUOTA]
    assert [device["uuid"] for device in seen["devices"]] == [gpu["uuid"] for gpu in seen["nvml"]]
    assert [(gpu["total"], gpu["used"], gpu["free"]) for gpu in seen["nvml"]] == [
        (QUOTA, 0, QUOTA)
    ] * 2
    assert seen["fill"] == {
        "bytes": ROOM,
        "refusal": "CUDA_ERROR_OUT_OF_MEMORY",
        "free": 0,
        "total": QUOTA,
    }


def test_slurms_own_tools_show_which_slots_a_job_holds(cluster: RunningCluster) -> None:
    with cluster.holding("devices", options=["--gres=vgpu:2", "-w", "n1", "-J", "shown"]):
        (job,) = cluster.check("squeue", "-h", "-n", "shown", "-o", "%i").split()
        assert "vgpu:v4g:2(IDX:0-1)" in cluster.check("scontrol", "show", "job", "-d", job)
        assert [vgpu["vgpu"]["slot"] for vgpu in cluster.vgpus("n1")] == [0, 1]
        assert "vgpu:v4g:2(IDX:0-1)" in cluster.check(
            "sinfo", "-h", "-n", "n1", "-O", "GresUsed:80"
        )
