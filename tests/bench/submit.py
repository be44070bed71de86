"""Submission: what the bridge and vgpu-select add on a controller of 1 024 nodes with 8 GPUs each.

The controller is real; the nodes exist for it only, with the reports that agents would give. A
client of Slurm's API submits held jobs; the baseline is a job_submit.lua that does nothing.
"""

import statistics
import subprocess
import time
from pathlib import Path

from pysched.topology import report
from pysched.topology.model import Gpu, Link, Topology
from pysched.topology.model import Path as Way
from tests.bench import machines
from tests.bench.figures import Figure
from tests.cluster.running import PYTHON, RunningCluster

NODES = 1024
SOURCE = "/opt/slurm-vgpu/src"
JOB_SUBMIT = "/etc/slurm/job_submit.lua"
EMPTY = """\
function slurm_job_submit() return slurm.SUCCESS end
function slurm_job_modify() return slurm.SUCCESS end
"""
GRES = "gres:vgpu:2"
DEADLINE_MS = 100
CLIENTS = 4
PLAN = """\
version: 1
cards: {card: {memory: 40GiB, sms: 108}}
types: {v10g: {memory: 10GiB, sms: 25}}
nodes:
  - names: sw[0001-0512]
    slurm: {Sockets: 2, CoresPerSocket: 32, ThreadsPerCore: 1, RealMemory: 64000}
    nvlink: switch
    gpus: [{gpu: 0-7, card: card, vgpus: {v10g: 4}}]
  - names: pair[0001-0512]
    slurm: {Sockets: 2, CoresPerSocket: 32, ThreadsPerCore: 1, RealMemory: 64000}
    nvlink: {0-1: 12, 2-3: 12, 4-5: 12, 6-7: 12}
    gpus: [{gpu: 0-7, card: card, vgpus: {v10g: 4}}]
"""
CONFIGURE = (
    "import sys; from tests.cluster.mini import config; config.generate(sys.stdin.read(), '22.05')"
)


def eight(paired: bool) -> str:
    """The report of a machine with NVSwitch, or with bridged pairs."""

    def link(one: int, other: int) -> Link:
        if not paired or one // 2 == other // 2:
            return Link(12, Way.SYS)
        return Link(path=Way.SYS)

    made = machines.made(8, link)
    gpus = tuple(Gpu(gpu.rates, minor, "A100") for minor, gpu in enumerate(made.gpus))
    return report.write(Topology(gpus, made.links, switch=not paired))


class Controller:
    """A cluster whose controller has been given many nodes."""

    def __init__(self) -> None:
        self.cluster = RunningCluster("--nodes", "1", "--services", "--set", "SlurmdTimeout=0")
        self.bridge = self.lua.read_text()
        for host, daemon in (("n1", "agent"), ("n1", "slurmd"), ("controller", "slurmctld")):
            self.cluster.ctl(host, "stop", daemon)
        python = ("env", f"PYTHONPATH={SOURCE}", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", PYTHON)
        self.cluster.check(*python, "-c", CONFIGURE, stdin=PLAN)
        self.cluster.ctl("controller", "start", "slurmctld")
        for name, paired in (("sw", False), ("pair", True)):
            extra = f"Extra=vgpu{{{eight(paired)}}}"
            self.cluster.check("scontrol", "update", f"NodeName={name}[0001-0512]", extra)
        self.cluster.ctl("controller", "restart", "select")
        self.wait_for_select()

    @property
    def lua(self) -> Path:
        return self.cluster.path(JOB_SUBMIT)

    def wait_for_select(self) -> None:
        """Until it knows that no node links three of the GPUs of a pair node, and four no less."""
        deadline = time.monotonic() + 60
        wish = ("--vgpu-affinity=require_nvlink", "--hold", "--wrap=true")
        while "the most is 8" not in self.cluster.run("sbatch", "--gres=vgpu:9", *wish).stderr:
            if time.monotonic() > deadline:
                raise RuntimeError("vgpu-select does not get to know the nodes")
            time.sleep(0.2)

    def use(self, script: str) -> None:
        """Put another job_submit.lua in place: slurmctld reads it again at the next job."""
        time.sleep(1.1)  # it goes by the file's time, in seconds
        self.lua.write_text(script)
        self.submit(5)

    def submit(self, count: int, gres: str = GRES) -> list[float]:
        """Milliseconds of each submission."""
        printed = self.cluster.check("submitter", str(count), gres, timeout=300)
        return [float(line) / 1000 for line in printed.splitlines()]

    def rate(self, count: int) -> float:
        """Submissions a second of four clients at once."""
        start = time.monotonic()
        clients = [self.cluster.popen("submitter", str(count), GRES) for _ in range(CLIENTS)]
        for client in clients:
            client.communicate(timeout=300)
        return CLIENTS * count / (time.monotonic() - start)

    def clear(self) -> None:
        self.cluster.check("scancel", "--user=root")

    def memory(self) -> float:
        """MiB that vgpu-select has in memory."""
        pid = self.select_pid()
        status = self.cluster.check("cat", f"/proc/{pid}/status")
        kib = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(kib) / 1024

    def select_pid(self) -> str:
        return self.cluster.check("cat", "/run/minicluster/controller/select.pid").strip()

    def hang(self) -> tuple[list[float], float]:
        """Submissions while vgpu-select is stopped, and the slowest squeue beside the first."""
        self.use(self.bridge + "\n")
        self.cluster.check("kill", "-STOP", self.select_pid())
        try:
            submitting = self.cluster.popen("submitter", "20", GRES)
            slowest = 0.0
            while submitting.poll() is None:
                start = time.monotonic()
                self.cluster.check("squeue", "-h", "-j", "1")
                slowest = max(slowest, 1000 * (time.monotonic() - start))
            printed, _ = submitting.communicate()
        finally:
            self.cluster.check("kill", "-CONT", self.select_pid())
        return [float(line) / 1000 for line in printed.splitlines()], slowest


def percentile(values: list[float], share: int) -> float:
    return statistics.quantiles(values, n=100)[share - 1]


def run(quick: bool) -> list[Figure]:
    """Both scripts in turn, so that noise meets both."""
    rounds, count = (2, 150) if quick else (5, 400)
    controller = Controller()
    try:
        bridged, empty, rates, bare_rates = [], [], [], []
        turns = ((EMPTY, empty, bare_rates), (controller.bridge, bridged, rates))
        for script, times, speeds in turns * rounds:
            controller.use(script)
            times.extend(controller.submit(count))
            speeds.append(controller.rate(count // CLIENTS))
            controller.clear()
        memory = controller.memory()
        hanging, squeue = controller.hang()
    except subprocess.SubprocessError as error:
        raise RuntimeError(str(error)) from None
    finally:
        controller.cluster.close()
    base, tail = statistics.median(empty), percentile(empty, 99)
    added, added_tail = statistics.median(bridged) - base, percentile(bridged, 99) - tail
    first, later = hanging[0], statistics.median(hanging[1:])
    return [
        Figure("added_median", added, "ms", base, "at most 0.5", added <= 0.5),
        Figure("added_p99", added_tail, "ms", tail, "at most 2", added_tail <= 2),
        Figure("rate_of_4_clients", max(rates), "1/s", max(bare_rates)),
        Figure("select_memory", memory, "MiB"),
        Figure(
            "first_while_hung", first, "ms", base, f"at most {DEADLINE_MS} more",
            first <= base + DEADLINE_MS + 10,
        ),
        Figure("later_while_hung", later, "ms", base),
        Figure("squeue_while_hung", squeue, "ms", None),
    ]  # fmt: skip
