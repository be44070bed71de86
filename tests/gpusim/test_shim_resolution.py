"""However a program finds the driver's functions, it finds ours, and all else as before."""

from __future__ import annotations

import re

import pytest

from tests.gpusim.step import GIB, Step
from tests.sandbox.paths import REPOSITORY

CARD = 40 * GIB


RUN = """
def run(program, preload=""):
    "What it prints: output, errors."
    done = subprocess.run([f"{SHIM_PROGRAMS}/{program}"], capture_output=True, text=True,
        env=os.environ | {"LD_PRELOAD": preload}, check=True)
    return [done.stdout.splitlines(), done.stderr]
"""


# --- ways to find a function ----------------------------------------------------------------------


@pytest.mark.parametrize("program", ["linked", "ways"])
def test_every_way_to_find_a_function_that_works_natively_finds_ours(
    step: Step, native: Step, program: str
) -> None:
    code = RUN + f"answer = run({program!r})"
    (without, errors), (within, none) = native.run(code), step.run(code)
    assert errors == none == ""
    assert len(without) >= 3
    assert within == [line.replace(str(CARD), str(GIB)) for line in without]
    assert any(line.endswith(str(GIB)) for line in within)


def test_names_that_are_not_the_drivers_are_found_where_they_are(step: Step, native: Step) -> None:
    code = RUN + "answer = run('names')[0]"
    without = native.run(code)
    assert len(without) > 200
    assert without[-8:] == ["thread: right"] * 8
    assert step.run(code) == without


def test_the_users_own_preloaded_libraries_work_beside_ours(step: Step) -> None:
    code = RUN + "answer = [run('names', f'{SHIM_PROGRAMS}/libearly.so')[1], run('names')[1]]"
    assert step.run(code) == ["", ""]


def test_another_interposer_of_dlsym_sees_what_it_saw_and_sheds_nothing(
    step: Step, native: Step
) -> None:
    code = RUN + "answer = run('ways', f'{SHIM_PROGRAMS}/libwrap.so')"
    (without, errors), (within, same) = native.run(code), step.run(code)
    assert errors == same == "libwrap: seen\n"
    assert [line for line in within if str(CARD) in line] == []
    assert [line.split()[-1] == "nothing" for line in within] == [
        line.split()[-1] == "nothing" for line in without
    ]


def test_a_copy_of_the_driver_library_under_another_name_is_still_the_driver(step: Step) -> None:
    code = """
    import shutil
    shutil.copy("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/tmp/mine.so")
    mine = ctypes.CDLL("/tmp/mine.so")
    total = ctypes.c_size_t()
    answer = [mine.cuInit(0), mine.cuDeviceTotalMem_v2(ctypes.byref(total), 0), total.value]
    """
    assert step.run(code) == [0, 0, GIB]


# --- cuGetProcAddress -----------------------------------------------------------------------------

# Where each (name, version, flags) leads: object and symbol.
ADDRESSES = """
class Info(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("symbol", ctypes.c_char_p),
                ("address", ctypes.c_void_p)]

def where(address):
    info = Info()
    found = ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(info))
    assert found and info.symbol
    return [Path(info.file.decode()).name.split(".so")[0], info.symbol.decode()]

lib = raw()
def ask(name, version, flags, function=lib.cuGetProcAddress_v2):
    found, status = ctypes.c_void_p(7), ctypes.c_int(7)
    rc = function(name.encode(), ctypes.byref(found), version, ctypes.c_uint64(flags),
                  ctypes.byref(status))
    place = found.value and (where(found.value) if rc == 0 else found.value)
    return [rc, status.value, place]
"""


def triples() -> list[tuple[str, int, int]]:
    text = (REPOSITORY / "build/venv/include-cuda/cudaTypedefs.h").read_text()
    pairs = sorted({(m[1], int(m[2])) for m in re.finditer(r"\bPFN_(cu\w+?)_v(\d+)[_)]", text)})
    assert len(pairs) > 500
    versions = {v + step for _, v in pairs for step in (-1, 0)}
    names = {name for name, _ in pairs}
    sample = {(name, v, flags) for name, v in pairs for flags in (0, 1, 2)}
    sample |= {(name, v - 1, flags) for name, v in pairs for flags in (0, 2)}
    sample |= {(name, version, 2) for name in names for version in (min(versions), 12000, 13000)}
    return sorted(sample)


def hooked() -> set[str]:
    text = (REPOSITORY / "spank/shim/hooks.def").read_text()
    symbols = set(re.findall(r"^(?:HOOK|GATE|GATE_BOTH)\((\w+)", text, re.M))
    both = re.findall(r"^GATE_BOTH\((\w+), \d+, (_\w+)", text, re.M)
    return symbols | {base + suffix for base, suffix in both}


def test_every_name_version_and_flavour_leads_to_the_same_variant_as_natively(
    step: Step, native: Step
) -> None:
    code = ADDRESSES + f"answer = [ask(*triple) for triple in {triples()!r}]"
    without, within = native.run(code), step.run(code)
    ours, seen = hooked(), set()
    for triple, (rc, status, place), got in zip(triples(), without, within, strict=True):
        expected = place and ["libvgpu" if place[1] in ours else "libcuda", place[1]]
        assert got == [rc, status, expected], triple
        seen.add(place and place[1])
    for symbol in (
        "cuMemAlloc_v2",
        "cuLaunchKernel_ptsz",
        "cuMemcpyHtoD_v2_ptds",
        "cuCtxCreate_v3",
    ):
        assert symbol in seen


def test_what_is_not_found_is_answered_as_the_driver_does(step: Step, native: Step) -> None:
    code = (
        ADDRESSES
        + """
answer = [ask("cuNoSuchName", 12000, 0), ask("cuMemAlloc", 1000, 0), ask("cuMemAlloc", 0, 0),
          ask("cuMemAlloc", 99999, 0), ask("cuMemAlloc", 3020, 99), ask("", 12000, 0)]
found = ctypes.c_void_p()
answer += [
    lib.cuGetProcAddress_v2(b"cuMemAlloc", ctypes.byref(found), 3020, ctypes.c_uint64(0), None)]
answer += [lib.cuGetProcAddress_v2(b"cuMemAlloc", None, 3020, ctypes.c_uint64(0), None)]
answer += [lib.cuGetProcAddress_v2(None, ctypes.byref(found), 3020, ctypes.c_uint64(0), None)]
for one in answer:
    if isinstance(one, list) and isinstance(one[2], list):
        one[2] = one[2][1]  # the symbol; whose it is differs, as it should
"""
    )
    assert step.run(code) == native.run(code)


def test_a_symbol_that_the_driver_lacks_stays_lacking(step: Step) -> None:
    code = """
faults("hide cuMemAllocAsync\\nhide cuCtxCreate_v4")
answer = child(ADDRESSES + '''
out = []
for name in ("cuMemAllocAsync", "cuCtxCreate_v4", "cuMemAlloc_v2"):
    out.append(hasattr(lib, name))
say(out + [ask("cuMemAllocAsync", 11020, 0)[2], ask("cuCtxCreate", 13000, 0)[2]])
''').hear()
"""
    within = step.run(f"ADDRESSES = {ADDRESSES!r}\n" + code)
    assert within == [False, False, True, None, ["libvgpu", "cuCtxCreate_v3"]]


def test_it_can_be_asked_for_itself_at_both_arities(step: Step) -> None:
    code = (
        ADDRESSES
        + """
answer = [ask("cuGetProcAddress", version, 0)[2] for version in (11030, 11080, 12000, 13000)]
"""
    )
    old, new = ["libvgpu", "cuGetProcAddress"], ["libvgpu", "cuGetProcAddress_v2"]
    assert step.run(code) == [old, old, new, new]


def test_names_may_be_asked_before_cuInit(step: Step) -> None:
    """As the runtime does; and nothing of ours is opened for it."""
    code = (
        ADDRESSES
        + """
before = len(os.listdir("/proc/self/fd"))
for name in ("cuInit", "cuMemAlloc", "cuLaunchKernel"):
    ask(name, 12000, 0)
answer = [len(os.listdir("/proc/self/fd")) - before, code(d.cuInit(0))]
"""
    )
    assert step.run(code) == [0, 0]


def test_export_tables_pass_through(step: Step, native: Step) -> None:
    code = (
        ADDRESSES
        + """
table, answer = ctypes.c_void_p(7), []
for uuid in (bytes(16), bytes(range(16))):
    rc = lib.cuGetExportTable(ctypes.byref(table), uuid)
    answer.append([rc, table.value])
address = ctypes.cast(lib.cuGetExportTable, ctypes.c_void_p).value
answer.append(where(address))
"""
    )
    assert step.run(code) == native.run(code)


# --- the limit holds whatever was found -----------------------------------------------------------


def test_the_quota_holds_through_every_variant_of_an_allocation(step: Step) -> None:
    code = """
    start()
    lib, pointer, pitch = raw(), ctypes.c_uint64(), ctypes.c_uint64()
    p, big = ctypes.byref(pointer), ctypes.c_size_t(2 << 30)
    pool = ctypes.c_void_p(int(ok(d.cuDeviceGetDefaultMemPool(0))))
    answer = [
        lib.cuMemAlloc_v2(p, big), lib.cuMemAllocManaged(p, big, 1),
        lib.cuMemAllocPitch_v2(p, ctypes.byref(pitch), big, ctypes.c_size_t(1), 4),
        lib.cuMemAllocAsync(p, big, None), lib.cuMemAllocAsync_ptsz(p, big, None),
        lib.cuMemAllocFromPoolAsync(p, big, pool, None),
        lib.cuMemAllocFromPoolAsync_ptsz(p, big, pool, None),
        lib.cuMemAlloc(p, 2 << 30),
    ]
    """
    assert step.run(code) == [2] * 8


def test_nothing_but_the_drivers_names_is_added_to_the_programs(step: Step) -> None:
    code = """
    names = subprocess.check_output(["nm", "-D", "--defined-only", SHIM], text=True)
    names = [line.split()[-1] for line in names.splitlines()]
    answer = [name for name in names if not name.startswith(("cu", "nvml"))]
    """
    assert sorted(step.run(code)) == ["dlsym", "dlvsym"]


def test_a_library_that_wraps_nothing_keeps_its_own_round_up(step: Step) -> None:
    code = "answer = ctypes.CDLL(f'{SHIM_PROGRAMS}/libearly.so').round_up(1)"
    assert step.run(code) == 1001
