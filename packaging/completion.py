"""Write shell completion of the vgpu command for bash, zsh and fish. Usage: completion.py FOLDER"""

import sys
from pathlib import Path

from click.shell_completion import BashComplete, FishComplete, ZshComplete

from pysched.cli.main import main

SHELLS = {"vgpu": BashComplete, "_vgpu": ZshComplete, "vgpu.fish": FishComplete}


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, shell in SHELLS.items():
        complete = shell(main, {}, "vgpu", "_VGPU_COMPLETE")
        (folder / name).write_text(complete.source_template % complete.source_vars() + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
