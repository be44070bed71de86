"""Write a set of files: each at once, none of them if one cannot be written."""

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

MARK = "written by vgpu config generate"


class WriteError(Exception):
    """One sentence about the file that cannot be written."""


def write(directory: Path, files: Mapping[str, str], force: bool = False) -> list[str]:
    """Write the files; return the names of those that changed.

    A file that is not ours is replaced only with ``force``.
    """
    changed = [name for name, text in files.items() if _differs(directory / name, text, force)]
    staged: list[tuple[Path, Path]] = []
    try:
        for name in changed:
            staged.append((_stage(directory / name, files[name]), directory / name))
        for temporary, path in staged:
            temporary.replace(path)
    except OSError as error:
        raise WriteError(f"{error.filename}: cannot be written: {error.strerror}") from None
    finally:
        for temporary, _ in staged:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
    return changed


def _differs(path: Path, text: str, force: bool) -> bool:
    try:
        present = path.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return True
    except OSError as error:
        raise WriteError(f"{path}: cannot be read: {error.strerror}") from None
    if MARK not in present.lower() and present.strip() and not force:
        raise WriteError(
            f"{path}: was not written by vgpu config generate; move what it says into the plan, "
            "or give --force to replace it"
        )
    return present != text


def _stage(path: Path, text: str) -> Path:
    """The text in a temporary file beside the path, on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fchmod(stream.fileno(), 0o644)
        os.fsync(stream.fileno())
    return Path(name)
