"""Where things are installed: as install.json beside this file says, else where Debian has them."""

import json
import sysconfig
from pathlib import Path
from typing import Any

_INSTALLED = Path(__file__).with_name("install.json")


def _installed() -> dict[str, Any]:
    return dict(json.loads(_INSTALLED.read_text())) if _INSTALLED.exists() else {}


_PATHS = _installed()
_MULTIARCH = sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu"

PKGLIBDIR = Path(_PATHS.get("pkglibdir", f"/usr/lib/{_MULTIARCH}/slurm-vgpu"))
DATADIR = Path(_PATHS.get("datadir", "/usr/share/slurm-vgpu"))
SYSCONFDIR = Path(_PATHS.get("sysconfdir", "/etc"))

SLOTS_DIR = DATADIR / "slots"
VGPU_CONF = SYSCONFDIR / "slurm" / "vgpu.conf"
RUNTIME_DIR = Path("/run/vgpu")
SLURM_PREFIX = Path(_PATHS.get("slurm_prefix") or "/usr")
SLURM_PLUGINS = Path(_PATHS.get("slurm_plugindir") or f"/usr/lib/{_MULTIARCH}/slurm-wlm")
