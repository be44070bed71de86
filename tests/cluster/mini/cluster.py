"""Start a cluster inside a sandbox."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.mini import config, nodes, plan
from tests.cluster.mini.daemons import find
from tests.cluster.mini.paths import CONTROLLER, RUN, VGPU, VGPU_CONF
from tests.sandbox.gpus import Machine


@dataclass(frozen=True)
class Cluster:
    """What somebody wants to have started."""

    machine: Machine
    machines: Mapping[str, Machine] = field(default_factory=dict)  # of nodes with one of their own
    nodes: int = 2
    plan: str | None = None  # text; None: the default one
    conf: Mapping[str, str] | None = None  # generated files by name, instead of a plan
    vgpus: bool = True  # False: Slurm without any configuration of the suite
    release: str = "22.05"
    cgroup: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    services: bool = False  # vgpu-agent on the nodes, vgpu-select and the bridge at slurmctld
    devices: Sequence[Path] = ()  # of every node, beside its GPUs

    def start(self) -> None:
        """Write the configuration, start all daemons, and wait until the nodes can be used."""
        (RUN / CONTROLLER).mkdir(parents=True)
        config.write_munge_key()
        find(CONTROLLER, "munged").start(wait=False)
        settings = {**(config.write_cgroup_conf() if self.cgroup else {}), **self.settings}
        settings |= config.write_bridge() if self.services else {}
        config.write_slurm_conf(settings, self._configure())
        find(CONTROLLER, "munged").wait_ready()
        find(CONTROLLER, "slurmctld").start()
        ports = config.nodes()
        for name, port in ports.items():
            nodes.make(name, self.machines.get(name, self.machine), port, self.devices)
        if VGPU_CONF.exists():
            VGPU.mkdir(mode=0o755)
            self._start("vgpud", list(ports))
        self._start("slurmd", list(ports))
        if self.services:
            find(CONTROLLER, "select").start(wait=False)
            self._start("agent", list(ports))
            find(CONTROLLER, "select").wait_ready()

    def _configure(self) -> list[str]:
        if not self.vgpus:
            return config.plain_nodes([f"n{number}" for number in range(1, self.nodes + 1)])
        if self.conf is not None:
            return config.write(self.conf)
        return config.generate(
            self.plan or plan.default_plan(self.machine, self.nodes), self.release
        )

    def _start(self, name: str, hosts: Sequence[str]) -> None:
        """Start this daemon of all nodes, and only then wait for them."""
        daemons = [find(host, name) for host in hosts]
        for daemon in daemons:
            daemon.start(wait=False)
        for daemon in daemons:
            daemon.wait_ready()
