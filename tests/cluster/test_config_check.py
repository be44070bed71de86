"""vgpu config check on a working cluster that is broken in one way at a time.

Each test breaks one thing, expects just the finding about it, sees where it can that Slurm does
what the finding says, and puts everything back.
"""

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import Clusters
from tests.cluster.running import PYTHON, RunningCluster
from tests.sandbox.gpus import MACHINES

PLAN = Path(__file__).parent / "plans" / "reference.plan.yaml"
ETC = "/etc/slurm"
LIBRARY = "/usr/lib/x86_64-linux-gnu/slurm-vgpu"
SLOTS = "/usr/share/slurm-vgpu/slots"


@pytest.fixture(scope="module")
def shared(clusters: Clusters, tmp_path_factory: pytest.TempPathFactory) -> RunningCluster:
    """The reference plan; n2 has an old driver."""
    old = tmp_path_factory.mktemp("machine") / "old.machine"
    text = (MACHINES / "a100-pcie-4.machine").read_text()
    old.write_text(text.replace("machine=a100-pcie-4", "machine=a100-pcie-4 driver=510.47.03"))
    return clusters("--plan", str(PLAN), "--machine", f"n2={old}", "--set", "MessageTimeout=5")


@pytest.fixture
def cluster(shared: RunningCluster) -> Iterator[RunningCluster]:
    """The cluster, with its configuration put back afterwards."""
    etc = shared.path(ETC)
    files = [path for path in etc.rglob("*.conf") if path.is_file()]
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
    yield shared
    for path, (content, time_ns) in before.items():
        path.write_bytes(content)
        os.utime(path, ns=(time_ns, time_ns))
    if marked(shared):
        shared.check("rm", "/run/restarted")
        restart(shared)
    wait_until_idle(shared)


def wait_until_idle(cluster: RunningCluster) -> None:
    deadline = time.monotonic() + 60
    while (state := cluster.states()["n1"]) != "idle":
        assert time.monotonic() < deadline, state
        if state == "drained":
            cluster.check("scontrol", "update", "NodeName=n1", "State=RESUME")
        time.sleep(0.2)


def marked(cluster: RunningCluster) -> bool:
    return cluster.path("/run/restarted").exists()


def restart(cluster: RunningCluster, *, mark: bool = False) -> None:
    """Let slurmctld and the slurmd of n1 read their files again."""
    if mark:
        cluster.path("/run/restarted").touch()
    cluster.run("minicluster", "ctl", "n1", "stop", "slurmd")
    cluster.run("minicluster", "ctl", "controller", "restart", "slurmctld")
    cluster.run("minicluster", "ctl", "n1", "start", "slurmd")


def check(cluster: RunningCluster, *options: str, node: str = "n1") -> list[dict[str, Any]]:
    plan = f"{ETC}/plan.yaml" if not options else options[0]
    arguments = ["vgpu", "config", "check", plan, "--json", *options[1:]]
    done = cluster.run(*arguments, node=node, env={"SLURMD_NODENAME": node})
    assert done.returncode == (1 if done.stdout.strip() != "[]" else 0), done.stderr
    return list(json.loads(done.stdout))


def the_finding(
    cluster: RunningCluster, code: str, *options: str, node: str = "n1"
) -> dict[str, Any]:
    findings = check(cluster, *options, node=node)
    assert [finding["code"] for finding in findings] == [code], findings
    assert all(findings[0][key] for key in ("where", "what", "why", "remedy"))
    return findings[0]


def edit(cluster: RunningCluster, name: str, pattern: str, replacement: str) -> int:
    """Replace in a file of /etc/slurm; return the number of the first line that changed."""
    path = cluster.path(f"{ETC}/{name}")
    before = path.read_text()
    after = re.sub(pattern, replacement, before, flags=re.MULTILINE)
    assert after != before
    time_ns = path.stat().st_mtime_ns
    path.write_text(after)
    os.utime(path, ns=(time_ns, time_ns))  # as if it had never been right
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    return next(number for number, (old, new) in enumerate(pairs, 1) if old != new)


def logs(cluster: RunningCluster) -> str:
    return cluster.log("controller", "slurmctld") + cluster.log("n1", "slurmd")


# --- nothing -------------------------------------------------------------------------------------


def test_that_nothing_is_found_after_generate(cluster: RunningCluster) -> None:
    assert check(cluster) == []
    done = cluster.run("vgpu", "config", "check", f"{ETC}/plan.yaml")
    assert (done.returncode, done.stdout) == (0, "")
    assert "slurm-vgpu is no node of the plan" in done.stderr


# --- gres.conf -----------------------------------------------------------------------------------


def test_that_a_count_below_the_plan_is_found(cluster: RunningCluster) -> None:
    edit(cluster, "gres.conf", r"^.*slots/\[0-1\].*\n", "")
    found = the_finding(cluster, "gres-count")
    assert found["what"] == "vgpu:a100-2g is 14 where the plan has 16"
    assert found["nodes"] == ["n1", "n2"]
    restart(cluster, mark=True)
    said = ('gres/vgpu lacks "File=" parameter', "count reported lower than configured")
    assert any(text in logs(cluster) for text in said)
    assert all(text in found["why"] for text in said)


def test_that_another_type_is_found(cluster: RunningCluster) -> None:
    line = edit(cluster, "gres.conf", "Type=a100-4g-fast", "Type=a100-5g")
    found = the_finding(cluster, "gres-type")
    assert found["where"] == f"{ETC}/gres.conf:{line}"
    restart(cluster, mark=True)
    said = "A line in gres.conf for GRES vgpu:a100-5g has"
    assert said in cluster.log("n1", "slurmd")
    assert said in found["why"]


def test_that_a_missing_placeholder_is_found(cluster: RunningCluster) -> None:
    cluster.check("mv", f"{SLOTS}/3", f"{SLOTS}/away")
    try:
        found = the_finding(cluster, "gres-file")
    finally:
        cluster.check("mv", f"{SLOTS}/away", f"{SLOTS}/3")
    assert found["what"] == f"File={SLOTS}/3 is not there"
    assert f"fatal: can't stat gres.conf file {SLOTS}/3: No such file or directory" in found["why"]


def test_that_cores_that_the_node_does_not_have_are_found(cluster: RunningCluster) -> None:
    line = edit(cluster, "gres.conf", "Cores=16-31", "Cores=32-47")
    found = check(cluster)
    assert {finding["code"] for finding in found} == {"gres-cores"}
    assert found[0]["where"] == f"{ETC}/gres.conf:{line}"
    assert "2 sockets of 16 cores" in found[0]["what"]
    restart(cluster, mark=True)
    said = "Invalid GRES data for vgpu, Cores=32-47"
    assert said in cluster.log("n1", "slurmd")
    assert said in found[0]["why"]


def test_that_cores_that_are_no_whole_sockets_are_found(cluster: RunningCluster) -> None:
    edit(cluster, "gres.conf", r"(slots/\[0-1\] Cores=)0-15", r"\g<1>0-19")
    found = the_finding(cluster, "gres-cores")
    assert "not whole sockets" in found["what"]


def test_that_slots_in_another_order_are_found(cluster: RunningCluster) -> None:
    edit(cluster, "gres.conf", r"(^.*slots/\[0-1\].*\n)(^.*slots/\[2-3\].*\n)", r"\2\1")
    assert "jobs get another type" in the_finding(cluster, "gres-order")["why"]


def test_that_vgpus_of_a_node_that_is_not_planned_are_found(cluster: RunningCluster) -> None:
    line = "NodeName=n9 Name=vgpu Type=a100-2g File=/etc/passwd\n"
    path = cluster.path(f"{ETC}/gres.conf")
    path.write_text(path.read_text() + line)
    assert the_finding(cluster, "unplanned")["nodes"] == ["n9"]


# --- slurm.conf ----------------------------------------------------------------------------------


def test_that_a_missing_grestypes_is_found(cluster: RunningCluster) -> None:
    line = edit(cluster, "slurm-vgpu.conf", "^GresTypes=vgpu", "GresTypes=nic")
    found = the_finding(cluster, "gres-types")
    assert found["where"] == f"{ETC}/slurm-vgpu.conf:{line}"
    restart(cluster, mark=True)
    said = "No plugin configured to process GRES data"
    assert said in cluster.log("controller", "slurmctld")
    assert said in found["why"]
    assert "Gres=(null)" in cluster.check("scontrol", "show", "node", "n1")


def test_that_a_folder_of_plugindir_that_is_not_there_is_found(cluster: RunningCluster) -> None:
    edit(cluster, "slurm-vgpu.conf", "^(PluginDir=.*)", r"\1:/nowhere")
    found = the_finding(cluster, "plugin-dir")
    done = cluster.run("sinfo")
    assert done.returncode != 0
    said = "PluginDir: /nowhere: No such file or directory"
    assert said in done.stderr
    assert said in found["why"]


def test_that_a_plugindir_without_our_folder_is_found(cluster: RunningCluster) -> None:
    edit(cluster, "slurm-vgpu.conf", "^(PluginDir=[^:\n]*).*", r"\1")
    assert LIBRARY in the_finding(cluster, "plugin-dir")["what"]


def test_that_a_nodename_line_with_other_counts_is_found(cluster: RunningCluster) -> None:
    line = edit(cluster, "slurm-vgpu.conf", "vgpu:a100-2g:16", "vgpu:a100-2g:15")
    found = the_finding(cluster, "node-gres")
    assert found["where"] == f"{ETC}/slurm-vgpu.conf:{line}"


def test_that_what_slurmctld_does_not_know_yet_is_found(cluster: RunningCluster) -> None:
    plan = f"{ETC}/new.yaml"
    text = cluster.path(f"{ETC}/plan.yaml").read_text()
    cluster.path(plan).write_text(text.replace("a100-2g: 4", "a100-2g: 3"))
    before = cluster.path(f"{ETC}/slurm-vgpu.conf").read_text()
    cluster.check("vgpu", "config", "generate", plan, "-o", ETC)
    new = cluster.path(f"{ETC}/slurm-vgpu.conf")
    ports = re.search(r" NodeHostname=.*", before)
    assert ports
    new.write_text(re.sub(r"(?m)^(NodeName=.*)", rf"\1{ports[0]}", new.read_text()))
    found = check(cluster, plan)
    assert [finding["code"] for finding in found] == ["vgpud", "node-gres"]
    assert found[1]["where"] == "slurmctld"
    assert found[1]["nodes"] == ["n1", "n2"]
    cluster.path(plan).unlink()


@pytest.mark.parametrize(
    ("script", "what"),
    [(None, "is not there"), ("return slurm.SUCCESS", "does not take in job_submit_vgpu.lua")],
)
def test_that_a_missing_bridge_is_found(
    cluster: RunningCluster, script: str | None, what: str
) -> None:
    plan = f"{ETC}/bridge.yaml"
    text = cluster.path(f"{ETC}/plan.yaml").read_text()
    cluster.path(plan).write_text(text.replace("cluster:\n", "cluster:\n  submit_bridge: true\n"))
    edit(cluster, "slurm-vgpu.conf", "^GresTypes", "JobSubmitPlugins=lua\nGresTypes")
    lua = cluster.path(f"{ETC}/job_submit.lua")
    if script is not None:
        lua.write_text(script)
    done = cluster.run("vgpu", "config", "check", plan, "--offline", "--json")
    cluster.path(plan).unlink()
    lua.unlink(missing_ok=True)
    findings = json.loads(done.stdout)
    assert [finding["code"] for finding in findings] == ["job-submit"]
    assert findings[0]["what"].startswith(what)


def test_that_a_missing_feature_is_found(cluster: RunningCluster) -> None:
    edit(cluster, "slurm-vgpu.conf", " Feature=vgpu-nvlink2", " Feature=ib")
    assert the_finding(cluster, "features")["what"] == "Feature lacks vgpu-nvlink2"


def test_that_a_drained_node_is_found(cluster: RunningCluster) -> None:
    reason = "gres/vgpu count reported lower than configured (30 < 32)"
    cluster.check("scontrol", "update", "NodeName=n2", "State=DRAIN", f"Reason={reason}")
    try:
        found = the_finding(cluster, "node-state")
    finally:
        cluster.check("scontrol", "update", "NodeName=n2", "State=RESUME")
    assert found["what"] == f"IDLE+DRAIN: {reason}"
    assert found["nodes"] == ["n2"]


def test_that_a_slurmctld_that_does_not_answer_is_found(cluster: RunningCluster) -> None:
    cluster.ctl("controller", "stop", "slurmctld")
    try:
        found = the_finding(cluster, "slurmctld")
        assert check(cluster, f"{ETC}/plan.yaml", "--offline") == []
    finally:
        cluster.ctl("controller", "start", "slurmctld")
    assert "Unable to contact slurm controller" in found["what"]


# --- what is installed ----------------------------------------------------------------------------


def test_that_a_missing_plugin_is_found(cluster: RunningCluster) -> None:
    cluster.check("mv", f"{LIBRARY}/gres_vgpu.so", f"{LIBRARY}/away")
    try:
        found = the_finding(cluster, "plugin-missing")
        restart(cluster, mark=True)
        done = cluster.srun("--nodelist=n1", "--gres=vgpu:1", "true")
    finally:
        cluster.check("mv", f"{LIBRARY}/away", f"{LIBRARY}/gres_vgpu.so")
    assert done.returncode != 0
    assert "Slurm did not load its plugin gres/vgpu" in done.stderr
    assert "Slurm did not load its plugin gres/vgpu" in found["why"]


def test_that_a_plugin_for_another_release_is_found(cluster: RunningCluster) -> None:
    path = cluster.path(f"{LIBRARY}/gres_vgpu.so")
    good = path.read_bytes()
    version = cluster.check("slurmd", "-V").split()[1]
    major, minor, micro = map(int, version.split("."))
    number = (major << 16 | minor << 8 | micro).to_bytes(4, "little")
    assert good.count(number) == 1
    path.write_bytes(
        good.replace(number, (int.from_bytes(number, "little") - 1).to_bytes(4, "little"))
    )
    try:
        found = the_finding(cluster, "plugin-release")
        restart(cluster, mark=True)
        done = cluster.srun("--nodelist=n1", "--gres=vgpu:1", "true")
    finally:
        path.write_bytes(good)
    assert found["what"] == f"built for Slurm 22.05.{micro - 1} where {version} is installed"
    assert "Incompatible plugin version" in cluster.log("n1", "slurmd")
    assert "Incompatible plugin version" in found["why"]
    assert done.returncode != 0


def test_that_a_plugstack_without_our_plugin_is_found(cluster: RunningCluster) -> None:
    edit(cluster, "plugstack.conf.d/vgpu.conf", "^required", "# required")
    assert the_finding(cluster, "plugstack")["where"] == f"{ETC}/plugstack.conf"


def test_that_another_runtime_folder_is_found(cluster: RunningCluster) -> None:
    edit(cluster, "plugstack.conf.d/vgpu.conf", "runtime_dir=.*", "runtime_dir=/run/other")
    found = the_finding(cluster, "plugstack")
    assert found["what"] == "runtime_dir=/run/other where the plan has /run/vgpu/%n"
    done = cluster.srun("--nodelist=n1", "--gres=vgpu:1", "true")
    assert "vgpud does not answer" in done.stderr
    assert "vgpud does not answer" in found["why"]


# --- vgpu.conf ------------------------------------------------------------------------------------


def test_that_a_stale_vgpu_conf_is_found(cluster: RunningCluster) -> None:
    edit(cluster, "vgpu.conf", "Type=a100-2g Memory=2GiB", "Type=a100-2g Memory=1GiB")
    found = the_finding(cluster, "vgpu-conf")
    assert found["what"].startswith("slot 0 is a100-2g with 1 GiB, 10 to 25 SMs")
    assert found["nodes"] == ["n1", "n2"]


def test_that_other_rules_in_vgpu_conf_are_found(cluster: RunningCluster) -> None:
    edit(cluster, "vgpu.conf", "Workload=cnn Slice=15ms", "Workload=cnn Slice=9ms")
    assert "Workload=" in the_finding(cluster, "vgpu-conf")["what"]


def test_that_an_overcommitted_vgpu_conf_is_found(cluster: RunningCluster) -> None:
    edit(cluster, "vgpu.conf", "Memory=4GiB SMs=15 MaxSMs=30", "Memory=4GiB SMs=30 MaxSMs=30")
    found = the_finding(cluster, "vgpu-conf")
    assert "guaranteed more than its 108 SMs" in found["what"]


def test_that_a_vgpud_older_than_its_file_is_found(cluster: RunningCluster) -> None:
    cluster.check("touch", f"{ETC}/vgpu.conf")
    assert the_finding(cluster, "vgpud")["remedy"].startswith("restart vgpud")
    cluster.ctl("n1", "restart", "vgpud")
    assert check(cluster) == []


# --- hardware -------------------------------------------------------------------------------------


def nvml(cluster: RunningCluster, statement: str) -> None:
    """Let the administrator's NVML do something about GPU 1 of n1."""
    program = f"from pynvml import *; nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(1); {statement}"
    cluster.check(PYTHON, "-c", program, node="n1")


def test_that_a_card_smaller_than_planned_is_found(cluster: RunningCluster) -> None:
    plan = f"{ETC}/big.yaml"
    text = cluster.path(f"{ETC}/plan.yaml").read_text()
    big = text.replace("memory: 40GiB, sms: 108", "memory: 80GiB, sms: 216")
    cluster.path(plan).write_text(big.replace("a100-4g: 2,", "a100-4g: 6,"))
    found = check(cluster, plan, "--offline")
    cluster.path(plan).unlink()
    over = [finding for finding in found if finding["code"] == "overcommit"]
    assert [finding["where"] for finding in over] == [f"GPU {minor}" for minor in range(4)]
    assert over[0]["what"] == "guarantees of 160 SMs on a card of 108"


@pytest.mark.parametrize(
    ("mode", "broken", "good", "code"),
    [
        ("Mig", 1, 0, "gpu-mig"),
        ("Compute", 3, 0, "gpu-compute-mode"),
        ("Persistence", 0, 1, "gpu-persistence"),
    ],
)
def test_that_a_mode_of_a_gpu_is_found(
    cluster: RunningCluster, mode: str, broken: int, good: int, code: str
) -> None:
    nvml(cluster, f"nvmlDeviceSet{mode}Mode(gpu, {broken})")
    try:
        found = the_finding(cluster, code)
    finally:
        nvml(cluster, f"nvmlDeviceSet{mode}Mode(gpu, {good})")
    assert (found["where"], found["nodes"]) == ("GPU 1", ["n1"])


def test_that_an_old_driver_is_found(cluster: RunningCluster) -> None:
    found = the_finding(cluster, "driver", node="n2")
    assert "driver 510.47.03 where 515.65.01" in found["what"]


def test_that_mps_is_found(cluster: RunningCluster) -> None:
    cluster.check("cp", "/bin/sleep", "/run/nvidia-cuda-mps-server")
    process = cluster.popen("/run/nvidia-cuda-mps-server", "60", node="n1")
    try:
        found = the_finding(cluster, "mps")
    finally:
        cluster.run("pkill", "-x", "nvidia-cuda-mps")
        process.communicate()
    assert found["where"].startswith("nvidia-cuda-mps-server")


def test_that_a_gpu_the_plan_does_not_have_is_found_and_the_other_way_round(
    cluster: RunningCluster,
) -> None:
    plan = f"{ETC}/other.yaml"
    text = cluster.path(f"{ETC}/plan.yaml").read_text()
    cluster.path(plan).write_text(
        text.replace("gpu: 2-3", "gpu: 3-4").replace("2-3: 12", "3-4: 12")
    )
    found = {f["code"]: f["where"] for f in check(cluster, plan, "--offline")}
    cluster.path(plan).unlink()
    assert found["gpu-missing"] == "GPU 4"
    assert found["gpu-unplanned"] == "GPU 2"


def test_that_other_links_than_planned_are_found(cluster: RunningCluster) -> None:
    plan = f"{ETC}/links.yaml"
    text = cluster.path(f"{ETC}/plan.yaml").read_text()
    cluster.path(plan).write_text(text.replace("2-3: 12", "2-3: 4"))
    found = the_finding(cluster, "nvlink", plan)
    cluster.path(plan).unlink()
    assert found["what"] == "GPUs 2 and 3 have 12 links where the plan has 4"


# --- what a new plan changes ----------------------------------------------------------------------


def test_that_diff_names_the_jobs_that_are_in_the_way(cluster: RunningCluster) -> None:
    plan = f"{ETC}/new.yaml"
    text = cluster.path(f"{ETC}/plan.yaml").read_text()
    cluster.path(plan).write_text(text.replace("a100-2g: 4", "a100-2g: 3"))
    job = cluster.submit("sleep 60", "--nodelist=n2", user="bob")
    cluster.wait_for_state(job, "RUNNING")
    done = cluster.run("vgpu", "config", "diff", plan, "--json")
    cluster.check("scancel", str(job))
    cluster.path(plan).unlink()
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert [entry["nodes"] for entry in found["nodes"]] == ["n[1-2]"]
    assert found["nodes"][0]["need"] == "drain"
    assert found["jobs"] == [{"id": str(job), "user": "bob", "nodes": "n2"}]


# --- manners --------------------------------------------------------------------------------------


def test_that_a_finding_says_where_what_why_and_the_remedy(cluster: RunningCluster) -> None:
    edit(cluster, "slurm-vgpu.conf", " Feature=vgpu-nvlink2", "")
    done = cluster.run("vgpu", "config", "check", f"{ETC}/plan.yaml", "--node", "n1", node="n1")
    assert (done.returncode, done.stderr) == (1, "1 finding\n")
    assert [line.split(":")[0].strip() for line in done.stdout.splitlines()] == [
        f"{ETC}/slurm-vgpu.conf",
        "leads to",
        "remedy",
    ]
    assert "\033" not in done.stdout


def test_that_a_plan_that_is_none_cannot_be_checked(cluster: RunningCluster) -> None:
    done = cluster.run("vgpu", "config", "check", "/etc/hostname")
    assert (done.returncode, done.stdout) == (2, "")
