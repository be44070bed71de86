"""Copy Python modules and packages, without compiled parts and tests, into a folder.

Usage: bundle.py FOLDER MODULE...
"""

import importlib.util
import shutil
import sys
from pathlib import Path


def bundle(folder: Path, name: str) -> None:
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        sys.exit(f"bundle: there is no module {name} to copy: run `make setup`")
    source = Path(found.origin)
    if source.name == "__init__.py":
        leave = shutil.ignore_patterns("__pycache__", "*.so", "*.c", "*.pyi", "tests")
        shutil.copytree(source.parent, folder / name, ignore=leave)
    else:
        shutil.copy(source, folder)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for module in sys.argv[2:]:
        bundle(target, module)
