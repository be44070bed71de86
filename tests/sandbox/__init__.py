"""A machine of one's own for a command: private namespaces that vanish with their runner.

    from tests.sandbox import Sandbox, SandboxError
    code = Sandbox("gpusim", read_machine("dgx-a100")).run(body)

What body finds inside is described in tests/README.md. Only the standard library of Debian's Python
is used, so that this works before anything is installed.
"""

from tests.sandbox.errors import SandboxError
from tests.sandbox.runner import Sandbox

__all__ = ["Sandbox", "SandboxError"]
