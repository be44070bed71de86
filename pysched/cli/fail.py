"""How a command ends when it cannot do what it was asked to."""

import sys
from typing import NoReturn

import click

CANNOT = 2


def fail(message: str, status: int = CANNOT) -> NoReturn:
    """One sentence on stderr, then exit."""
    click.echo(f"vgpu: {message}", err=True)
    sys.exit(status)
