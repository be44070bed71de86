"""Where a cluster keeps its things, inside its sandbox."""

from pathlib import Path

CONTROLLER = "controller"

ETC_SLURM = Path("/etc/slurm")
SLURM_CONF = ETC_SLURM / "slurm.conf"
VGPU_CONF = ETC_SLURM / "vgpu.conf"

RUN = Path("/run/minicluster")  # RUN/HOST: process ids, logs and, of a node, its mount namespace
GPUSIM_NODES = Path("/run/gpusim-nodes")
VGPU = Path("/run/vgpu")
SELECT_SOCKET = Path("/run/vgpu-select/select.sock")


def runtime_dir(node: str) -> Path:
    """vgpud's folder; the plugstack line of a cluster says runtime_dir=/run/vgpu/%n."""
    return VGPU / node
