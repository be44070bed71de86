"""Cards by their product name: SMs where the source does not say, and a short name for the plan."""

import json
import re
from functools import cache
from pathlib import Path

_TABLE = Path(__file__).with_name("cards.json")

# CUDA cores of an SM, by compute capability: what makes NVML's number of cores a number of SMs.
CORES_PER_SM = {
    (6, 0): 64, (6, 1): 128, (6, 2): 128, (7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64,
    (8, 6): 128, (8, 7): 128, (8, 9): 128, (9, 0): 128, (10, 0): 128, (10, 3): 128,
    (11, 0): 128, (12, 0): 128, (12, 1): 128,
}  # fmt: skip


def sms(product: str) -> int | None:
    """SMs of a card by NVML's name of it; None for a card that is not in the table.

    >>> sms("NVIDIA A100-PCIE-40GB"), sms("Tesla T4"), sms("NVIDIA Unknown 9000")
    (108, 40, None)
    """
    text = _normal(product)
    return next((count for name, count in _table() if _begins(text, name)), None)


def plan_name(product: str) -> str:
    """A name for the plan.

    >>> plan_name("NVIDIA A100-PCIE-40GB"), plan_name("Tesla V100-SXM2-32GB")
    ('a100-pcie-40gb', 'v100-sxm2-32gb')
    """
    text = _normal(product).replace(" ", "-")
    name = re.sub(r"[^a-z0-9_.-]", "", text).strip("-.")[:63]
    return name if name[:1].isalpha() else f"gpu-{name}"[:63].rstrip("-")


def _normal(product: str) -> str:
    text = product.lower()
    for maker in ("nvidia ", "tesla ", "geforce ", "quadro "):
        text = text.removeprefix(maker)
    return " ".join(text.split())


def _begins(text: str, name: str) -> bool:
    return text.startswith(name) and not text[len(name) : len(name) + 1].isalnum()


@cache
def _table() -> list[tuple[str, int]]:
    """Longest names first, so that "l40s" is not taken for "l40"."""
    table: dict[str, int] = json.loads(_TABLE.read_text())
    return sorted(table.items(), key=lambda item: -len(item[0]))
