"""The plan of a cluster for which nobody gave one: each GPU carved into vGPUs of 4 GiB."""

from pysched.sizes import parse_size
from tests.sandbox.gpus import Gpu, Machine

TYPE = "v4g"
_MEMORY = 4 << 30


def default_plan(machine: Machine, count: int) -> str:
    gpu = machine.gpus[0]
    fit = parse_size(gpu.memory) // _MEMORY
    sms = gpu.sms // fit
    return f"""\
version: 1
cards:
  card: {{memory: {gpu.memory}, sms: {gpu.sms}}}
types:
  {TYPE}: {{memory: 4GiB, sms: {sms}, max_sms: {min(2 * sms, gpu.sms)}}}
nodes:
  - names: n[1-{count}]
    slurm: {{Sockets: 2, CoresPerSocket: 16, ThreadsPerCore: 1, RealMemory: 64000}}
    nvlink: {_nvlink(machine)}
    gpus:
{_gpus(machine.gpus, fit)}
"""


def _gpus(gpus: tuple[Gpu, ...], fit: int) -> str:
    minors = ",".join(str(gpu.minor) for gpu in gpus)
    return f'      - {{gpu: "{minors}", card: card, vgpus: {{{TYPE}: {fit}}}}}'


def _nvlink(machine: Machine) -> str:
    if machine.switch_links:
        return "switch"
    pairs = [f"{a}-{b}: {count}" for (a, b), count in sorted(machine.links.items())]
    return f"{{{', '.join(pairs)}}}" if pairs else "none"
