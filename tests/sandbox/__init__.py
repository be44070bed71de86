"""A machine of one's own for a command: private namespaces that vanish with their runner.

    from tests.sandbox import Sandbox, SandboxError
    code = Sandbox(machine=Path("a100.machine")).run(["nvidia-smi"])

What a command finds inside is described in tests/README.md. Only the standard library of Debian's Python is used, so
that the runners work before anything is installed.
"""

from tests.sandbox.errors import SandboxError
from tests.sandbox.runner import Sandbox

__all__ = ["Sandbox", "SandboxError"]
