"""What slurmctld says, through scontrol."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from gres.slurmconf import parse_gres

_CONFIG = re.compile(r"(\w+)\s*=\s?(.*)")
_REASON = re.compile(r" Reason=(.*?)(?: \[[^\]]*\])?(?: \w+=|$)")
_TIMEOUT = 60  # seconds: what a controller of ten thousand nodes may take


class ControllerError(Exception):
    """One sentence: slurmctld, or scontrol, does not answer."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node as slurmctld has it."""

    name: str
    gres: Mapping[str, int]
    features: frozenset[str]
    state: str
    reason: str
    sockets: int
    cores: int  # of a socket


@dataclass(frozen=True)
class Controller:
    config: Mapping[str, str]  # key in lower case
    nodes: Mapping[str, Node]

    @property
    def version(self) -> str:
        return self.config.get("slurm_version", "")


def ask() -> Controller:
    """Ask slurmctld for its configuration and all nodes."""
    config = {
        match[1].lower(): match[2].strip()
        for line in _scontrol("show", "config").splitlines()
        if (match := _CONFIG.match(line))
    }
    nodes = [_node(line) for line in _scontrol("--oneliner", "show", "node").splitlines()]
    return Controller(config, {node.name: node for node in nodes if node})


def _scontrol(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["scontrol", *arguments],
            capture_output=True, text=True, timeout=_TIMEOUT, check=False, errors="replace",
        )  # fmt: skip
    except FileNotFoundError:
        raise ControllerError("scontrol is not installed here") from None
    except subprocess.TimeoutExpired:
        raise ControllerError(f"scontrol does not answer within {_TIMEOUT} s") from None
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()
        raise ControllerError(f"scontrol {' '.join(arguments)}: {lines[0]}")
    return done.stdout


def _node(line: str) -> Node | None:
    values = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
    if "NodeName" not in values:
        return None
    reason = _REASON.search(line)
    features = values.get("AvailableFeatures", "")
    return Node(
        name=values["NodeName"],
        gres=parse_gres(values.get("Gres", "")),
        features=frozenset(features.split(",")) - {"", "(null)"},
        state=values.get("State", ""),
        reason=reason[1] if reason else "",
        sockets=_number(values.get("Sockets", "")) * max(1, _number(values.get("Boards", "1"))),
        cores=_number(values.get("CoresPerSocket", "")),
    )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
