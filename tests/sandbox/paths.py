"""Where things are, outside and inside."""

import sysconfig
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = REPOSITORY / "build"
VENV = (BUILD / "venv").resolve()

SOURCE = Path("/opt/slurm-vgpu/src")
VENV_INSIDE = Path("/opt/slurm-vgpu/venv")
PYTHON_INSIDE = VENV_INSIDE / "bin" / "python"

STAGE = Path("/run/sandbox")  # upper layers of the overlays
OVERLAYS = ("usr", "etc", "opt")
LIBDIR = Path("/usr/lib") / str(sysconfig.get_config_var("MULTIARCH"))

GPUSIM = Path("/run/gpusim")
STEP_DIR = Path("/run/vgpu-step")  # VGPU_STEP_DIR of spank/proto/paths.h
