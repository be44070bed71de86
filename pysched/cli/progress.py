"""A word to whoever waits at a terminal."""

import itertools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

PATIENCE = 2.0  # seconds before anything is said
_TURN = 0.25


@contextmanager
def working(what: str) -> Iterator[None]:
    """Tell a terminal on stderr what is being done, if it takes longer than a moment."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(what, done), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell(what: str, done: threading.Event) -> None:
    if done.wait(PATIENCE):
        return
    for sign in itertools.cycle("|/-\\"):
        click.echo(f"\r{sign} {what} ...", err=True, nl=False)
        if done.wait(_TURN):
            break
    click.echo(f"\r{' ' * (len(what) + 6)}\r", err=True, nl=False)
