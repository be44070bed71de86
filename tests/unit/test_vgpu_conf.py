"""vgpu.conf as Python reads it; tests/unit/c/test_conf.c has the same claims for C."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysched import vgpuconf
from pysched.vgpuconf import VgpuConfError

GOOD = """\
# the example of docs/vgpu.conf.md
Version=1
Backstop=warn Tolerance=64MiB ToleranceTime=500ms
Slices=5ms-100ms
Workload=cnn Slice=15ms
Burst=urgent Time=50ms QOS=high,top Partition=inference
Type=a100-4g Memory=4GiB SMs=15 MaxSMs=30
Type=a100-2g Memory=2GiB SMs=10 MaxSMs=25 Slice=20ms Policy=cap   # comment

Node=n[001-004] GPU=0 Memory=40GiB Reserve=512MiB SMs=108
node=n[001-004] gpu=1 memory=40GiB sms=108 UUID=GPU-01234567-89AB-cdef-0123-456789abcdef
Node=n[001-004] Slot=0 Type=a100-4g GPU=0
Node=n[001-004] Slot=1 Type=a100-4g GPU=1
Node=n[001-004] Slot=2-4 Type=a100-2g GPU=0,1
"""


def test_that_a_file_is_read_for_a_node() -> None:
    node = vgpuconf.parse(GOOD).node("n003")
    assert [gpu.minor for gpu in node.gpus] == [0, 1]
    assert node.gpus[1].uuid == "GPU-01234567-89ab-cdef-0123-456789abcdef"
    assert [(slot.index, slot.type.name, slot.gpu.minor) for slot in node.slots] == [
        (0, "a100-4g", 0),
        (1, "a100-4g", 1),
        (2, "a100-2g", 0),
        (3, "a100-2g", 1),
        (4, "a100-2g", 0),
    ]
    assert (node.slots[0].type.max_sms, node.slots[0].type.slice_ms) == (30, 10)
    assert (node.slots[4].type.policy, node.slots[4].type.slice_ms) == ("cap", 20)


def test_that_settings_of_the_backstop_are_read() -> None:
    conf = vgpuconf.parse(GOOD)
    assert (conf.backstop, conf.tolerance, conf.tolerance_ms) == ("warn", 64 << 20, 500)
    assert vgpuconf.parse("Version=1").backstop == "end"


def test_that_settings_of_gpu_time_are_read() -> None:
    conf = vgpuconf.parse(GOOD)
    assert conf.slices == (5, 100)
    assert conf.workloads == {"cnn": 15}
    assert conf.bursts == {"urgent": vgpuconf.Burst(50, ("high", "top"), ("inference",))}
    assert vgpuconf.parse("Version=1").slices == (5, 1000)


def test_that_a_node_that_is_not_mentioned_has_no_vgpus() -> None:
    conf = vgpuconf.parse(GOOD)
    assert conf.node("m1").slots == ()
    assert conf.names() == ["n001", "n002", "n003", "n004"]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("Version=1\n", "", 2, "first line is Version=1"),
        ("Version=1\n", "Version=2\n", 2, "Version=2"),
        ("Version=1\n", "Version=1\nVersion=1\n", 3, "twice"),
        ("Backstop=warn", "Backstop=kill", 3, "end, warn, off"),
        ("ToleranceTime=500ms", "ToleranceTime=500", 3, "milliseconds"),
        ("Tolerance=64MiB", "Tolerance=64MB", 3, "write 64MiB"),
        ("Type=a100-4g Memory=4GiB", "Type=a100-4g Memory=4GB", 7, "write 4GiB"),
        ("Type=a100-4g Memory=4GiB", "Type=a100-4g Memory=0K", 7, "more than nothing"),
        ("Type=a100-4g Memory=4GiB", "Type=a/b Memory=4GiB", 7, "letters, digits"),
        ("Type=a100-4g Memory=4GiB", "Type=a100-4g", 7, "Memory= is missing"),
        ("SMs=15 MaxSMs=30", "SMs=15 MaxSMs=10", 7, "from 15 to 65535"),
        ("SMs=15 MaxSMs=30", "SMs=15 sms=30", 7, "twice"),
        ("SMs=15 MaxSMs=30", "SMs=15 Cores=30", 7, "keys of this line are"),
        ("SMs=15 MaxSMs=30", "SMs=15 MaxSMs", 7, "not Key=Value"),
        ("Slices=5ms-100ms", "Slices=100ms-5ms", 4, "within 5ms-1000ms"),
        ("Slices=5ms-100ms", "Slices=5ms-6ms\nSlices=5ms-6ms", 5, "twice"),
        ("Slice=15ms", "Slice=1ms", 5, "5ms to 1000ms"),
        ("Workload=cnn Slice=15ms", "Workload=cnn", 5, "Slice= is missing"),
        ("Time=50ms", "Time=0ms", 6, "1ms to 10000ms"),
        (" QOS=high,top Partition=inference", "", 6, "needs QOS= or Partition="),
        ("Type=a100-2g Memory", "Type=a100-4g Memory", 8, "already"),
        ("Slice=20ms", "Slice=2ms", 8, "5ms to 1000ms"),
        ("Policy=cap", "Policy=hard", 8, "share, cap"),
        ("Reserve=512MiB", "Reserve=40GiB", 10, "leaves nothing"),
        ("GPU=0 Memory", "GPU=1024 Memory", 10, "0 to 1023"),
        ("GPU-01234567", "GPU-0123456", 11, "GPU-xxxxxxxx"),
        ("Slot=0 Type=a100-4g", "Slot=0 Type=a100-8g", 12, "not known"),
        ("Slot=0 Type", "Slot=3-1 Type", 12, "index or a range"),
        ("Slot=2-4 Type", "Slot=2-1024 Type", 14, "0 to 1023"),
        ("GPU=0,1", "GPU=0;1", 14, "whole number"),
        ("Node=n[001-004] Slot=0", "Node=n[ Slot=0", 12, "host list"),
        ("# comment", "\x01", 8, "control character"),
        ("Node=n[001-004] Slot=0", "Slots=0", 12, "a line begins with"),
    ],
)
def test_that_an_error_names_the_line(old: str, new: str, line: int, words: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(VgpuConfError, match=rf"^vgpu\.conf:{line}: ") as caught:
        vgpuconf.parse(GOOD.replace(old, new))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("gpu=1 memory", "gpu=0 memory", "GPU=0 of node n001 is there already"),
        ("Slot=0 Type=a100-4g GPU=0", "Slot=0 Type=a100-4g GPU=7", "GPU=7 of node n001"),
        ("Slot=1 Type", "Slot=0 Type", "Slot=0 of node n001 is there already"),
        ("Slot=1 Type", "Slot=9 Type", "no slot 1"),
        ("SMs=15", "SMs=100", "more than its 108 SMs"),
        ("Memory=4GiB", "Memory=39GiB", "more memory than"),
    ],
)
def test_that_a_node_that_contradicts_itself_is_refused(old: str, new: str, words: str) -> None:
    text = GOOD.replace(old, new).replace("SMs=100 MaxSMs=30", "SMs=100")
    with pytest.raises(VgpuConfError) as caught:
        vgpuconf.parse(text).node("n001")
    assert words in str(caught.value)


def test_that_a_line_may_have_4095_bytes_and_no_more() -> None:
    line = "# " + "x" * 4093
    assert vgpuconf.parse(f"Version=1\n{line}\n")
    with pytest.raises(VgpuConfError, match="4095"):
        vgpuconf.parse(f"Version=1\n{line}x\n")


def test_that_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(VgpuConfError, match=r"vgpu\.conf: cannot be read: No such file"):
        vgpuconf.read(tmp_path / "vgpu.conf")


@given(st.lists(st.sampled_from(GOOD.split()), max_size=40), st.integers(0, 40))
def test_that_any_order_of_words_is_read_or_clearly_refused(words: list[str], width: int) -> None:
    lines = [" ".join(words[at : at + width + 1]) for at in range(0, len(words), width + 1)]
    try:
        vgpuconf.parse("Version=1\n" + "\n".join(lines)).node("n001")
    except VgpuConfError as error:
        assert str(error).startswith("vgpu.conf:")
