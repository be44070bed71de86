"""vgpu-agent: reports the node's topology to Slurm and advises where a step's vGPUs go."""

import argparse
import logging
import random
import socket
import sys
import time
from pathlib import Path

from pysched import paths, systemd, vgpuconf
from pysched.agent import cores, question, reporter
from pysched.agent.advice import AdviceError, Adviser
from pysched.lineserver import LineServer, ServerError
from pysched.placement import PlacementError, Policy
from pysched.slurm import SlurmError
from pysched.topology import Topology, nvml, report
from pysched.vgpuconf import Node, VgpuConfError
from pysched.vgpud_client import Vgpud, VgpudError

SOCKET = "agent.sock"
VGPUD_TIMEOUT = 0.08
"""Seconds; whoever asks waits 0.1."""
SWITCH_INTERVAL = 0.0005
"""Seconds after which the thread that looks at the hardware lets an answer go first."""

_log = logging.getLogger("vgpu-agent")


class Agent:
    """What the agent knows, renewed every ``interval`` seconds."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.runtime_dir = Path(str(options.runtime_dir).replace("%n", options.node))
        self.vgpud = Vgpud(self.runtime_dir, VGPUD_TIMEOUT)
        self.cpus = cores.read()
        self.node: Node | None = None
        self.conf_stamp: int | None = None
        self.reported, self.report_again_at = "", 0.0
        self.adviser: Adviser | None = None
        self.why_not = "the agent has just started"

    # --- advice ------------------------------------------------------------------------------

    def answer(self, line: bytes) -> bytes:
        """The answer to a question; an empty one with the reason where there is no advice."""
        try:
            if self.adviser is None:
                raise AdviceError(self.why_not)
            asked = question.parse(line)
            advice = self.adviser.advise(asked, self.vgpud.bindings())
            return question.answer(advice.gpus, advice.why)
        except (AdviceError, PlacementError, VgpudError, ValueError) as error:
            _log.warning("no advice: %s", error)
            return question.answer([], str(error))

    # --- what is known ------------------------------------------------------------------------

    def report(self, topology: Topology | None) -> None:
        """Tell Slurm of a topology that is new; now and then, see that it still has it.

        Slurm is not asked each time: on a cluster of thousands of nodes that would add up.
        """
        if topology is None or not self.options.slurm:
            return
        text, now = report.write(topology), time.monotonic()
        if text == self.reported and now < self.report_again_at:
            return
        try:
            reporter.report(self.options.node, text)
        except SlurmError as error:
            _log.warning("the topology is not reported: %s", error)
            return
        # Agents that started together do not come together again.
        self.reported = text
        self.report_again_at = now + self.options.report_interval * random.uniform(0.75, 1.25)

    def look(self) -> Topology | None:
        """Renew what advice is given from. None, with a word in the log, where that fails."""
        try:
            topology, node = nvml.read(), self.read_conf()
        except (nvml.NvmlError, VgpuConfError) as error:
            if str(error) != self.why_not:
                _log.error("%s", error)
            self.adviser, self.why_not = None, str(error)
            return None
        adviser = Adviser(topology, node, self.cpus, Policy(self.options.policy))
        if adviser != self.adviser:
            adviser.warm_up()
            self.adviser = adviser
        return topology

    def read_conf(self) -> Node:
        """This node's part of vgpu.conf, read again when the file has changed."""
        path: Path = self.options.conf
        stamp = path.stat().st_mtime_ns if path.exists() else None
        if self.node is None or stamp != self.conf_stamp:
            self.node, self.conf_stamp = vgpuconf.read(path).node(self.options.node), stamp
        return self.node

    def run(self) -> None:
        """Serve until told to stop, and look again now and then."""
        end = systemd.end_of_service()
        server = LineServer(self.runtime_dir / SOCKET, self.answer)
        topology = self.look()
        server.start()
        systemd.ready()
        self.report(topology)
        while not systemd.wait(end, self.options.interval) and server.is_alive():
            systemd.alive()
            self.report(self.look())
        server.close()


def main() -> int:
    options = _parser().parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL)
    logging.basicConfig(format="vgpu-agent: %(message)s", level=logging.INFO, stream=sys.stderr)
    try:
        Agent(options).run()
    except ServerError as error:
        _log.error("%s", error)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vgpu-agent", description=__doc__)
    add = parser.add_argument
    add(
        "--node", metavar="NAME", default=socket.gethostname().partition(".")[0],
        help="this node's name in Slurm (the host name up to the first dot)",
    )  # fmt: skip
    add(
        "--runtime-dir", metavar="DIR", default=paths.RUNTIME_DIR, type=Path,
        help="vgpud's folder; %%n stands for the node name (%(default)s)",
    )  # fmt: skip
    add(
        "--conf", metavar="FILE", default=paths.VGPU_CONF, type=Path,
        help="vgpu.conf (%(default)s)",
    )  # fmt: skip
    add(
        "--policy", choices=[each.value for each in Policy], default=Policy.SPREAD.value,
        help="where links do not decide: the emptiest GPUs, or the fullest (%(default)s)",
    )  # fmt: skip
    add(
        "--interval", metavar="SECONDS", default=30.0, type=float,
        help="how often hardware and vgpu.conf are looked at again (%(default)s)",
    )  # fmt: skip
    add(
        "--report-interval", metavar="SECONDS", default=600.0, type=float,
        help="how often the node's Extra is compared with the topology (%(default)s)",
    )  # fmt: skip
    add(
        "--no-slurm", dest="slurm", action="store_false",
        help="do not report the topology to Slurm",
    )  # fmt: skip
    return parser
