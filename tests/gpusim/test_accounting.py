"""What the tests rely on: every kind of device memory is counted to the byte."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.gpusim.inside import PROGRAMS, shared

KIB, MIB = 1 << 10, 1 << 20
CONTEXT = MIB
ROW = 4 * KIB
LARGE = 2 * MIB


def up(size: int, step: int) -> int:
    return -(-size // step) * step


def mip_levels(size: int) -> int:
    width, height = ROW // 4, size // ROW + 1
    return sum(max(width >> level, 1) * max(height >> level, 1) * 4 for level in range(5))


# Kind of memory -> what it is counted as, and what `count` objects of `size` bytes take of it.
KINDS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "linear": ("linear", lambda size, count: count * up(size, 512)),
    "pitch": ("linear", lambda size, count: count * ROW * (size // ROW + 1)),
    "managed": ("managed", lambda size, count: count * up(size, 512)),
    "async": ("pool", lambda size, count: up(count * up(size, 512), LARGE)),
    "pool": ("pool", lambda size, count: count * up(size, LARGE)),
    "vmm": ("vmm", lambda size, count: count * up(size, LARGE)),
    "shareable": ("vmm", lambda size, count: count * up(size, LARGE)),
    "array": ("array", lambda size, count: count * up(ROW * (size // ROW + 1), LARGE)),
    "array3d": ("array", lambda size, count: count * up(4 * ROW * (size // ROW // 4 + 1), LARGE)),
    "mipmap": ("array", lambda size, count: count * up(mip_levels(size), LARGE)),
    "graph": ("graph", lambda size, count: up(count * up(size, 512), LARGE)),
    "module": ("module", lambda size, count: count * MIB),
    "context": ("context", lambda size, count: count * CONTEXT),
}
SIZES = (1, 513, 4 * KIB, 2 * MIB, 2 * MIB + 1, 64 * MIB)

# Run `hold` and look at the simulator's own count while it holds and after it gave back.
HOLD = f"""
def hold(kind, size, count):
    program = subprocess.Popen(
        ["{PROGRAMS}/hold", kind, str(size), str(count)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    seen = []
    for _ in range(2):
        taken, used = map(int, program.stdout.readline().split())
        gpu = stat()["gpus"][0]
        (process,) = gpu["processes"]
        assert process["pid"] == program.pid
        assert process["bytes"] == sum(process["kinds"].values()) == gpu["used"] == used
        seen.append([taken, process["kinds"]])
        print(file=program.stdin, flush=True)
    assert program.wait() == 0
    assert stat()["gpus"][0]["used"] == 0
    return seen
"""


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_memory_is_counted_exactly_and_given_back_exactly(
    kind: str, small: str
) -> None:
    code = HOLD + f"answer = [hold({kind!r}, size, 3) for size in {SIZES}]"
    counted_as, takes = KINDS[kind]
    for size, (during, after) in zip(SIZES, shared(code, machine=small), strict=True):
        expected = {"context": CONTEXT}
        expected[counted_as] = expected.get(counted_as, 0) + takes(size, 3)
        assert during[0] == 3
        assert {name: held for name, held in during[1].items() if held} == expected, size
        assert {name: held for name, held in after[1].items() if held} == {"context": CONTEXT}


@pytest.mark.parametrize("kind", KINDS)
def test_as_much_as_fits_is_granted_and_not_one_object_more(kind: str, small: str) -> None:
    size = 100 * MIB
    code = HOLD + f"answer = hold({kind!r}, {size}, 3000)"
    (taken, _), _ = shared(code, machine=small)
    _, takes = KINDS[kind]
    assert takes(size, taken) <= 2048 * MIB - CONTEXT < takes(size, taken + 1)
