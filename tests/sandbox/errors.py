"""The one error of the sandbox: a sentence for the person who started it."""


class SandboxError(Exception):
    """What is missing or wrong, and what would be right. The runners print it and exit with 2."""
