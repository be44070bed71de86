"""Faults that can be injected into the simulated libcuda."""

from __future__ import annotations

from tests.gpusim.driver import OTHER, driver
from tests.gpusim.inside import inside


def test_a_call_fails_at_the_use_that_was_named() -> None:
    code = """
    context()
    alloc = lambda: rc(cu.cuMemAlloc(1))
    answer = [alloc(), alloc(), alloc(), alloc()]
    answer += [rc(cu.cuMemGetInfo()), rc(cu.cuMemGetInfo()), rc(cu.cuCtxSynchronize()),
        rc(cu.cuCtxSynchronize())]
    """
    faults = (
        "fail cuMemAlloc_v2 at 3 with 719\nfail cuMemGetInfo_v2 from 2 with 999 # later ones too\n"
    )
    faults += "fail cuCtxSynchronize with 2\n"
    assert driver(code, faults=faults) == [0, 0, 719, 0, 0, 999, 2, 2]


def test_a_failing_call_does_nothing_but_may_leave_garbage() -> None:
    code = """
    context()
    before = used()
    lib = ctypes.CDLL("libcuda.so.1")
    p = ctypes.c_uint64(5)
    answer = [lib.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(MIB)), hex(p.value),
        used() - before]
    p.value = 5
    answer += [lib.cuMemAllocManaged(ctypes.byref(p), ctypes.c_size_t(MIB), 1), p.value,
        used() - before]
    """
    faults = "fail cuMemAlloc_v2 with 2 garbage\nfail cuMemAllocManaged with 2\n"
    assert driver(code, faults=faults) == [2, "0x" + "db" * 8, 0, 2, 5, 0]


def test_initialisation_can_fail() -> None:
    code = """
    answer = [rc(cu.cuInit(0)), rc(cu.cuDeviceGetCount())]
    answer += [rc(cu.cuInit(0)), rc(cu.cuDeviceGetCount())]
    """
    assert driver(code, faults="fail cuInit at 1 with 802\n") == [802, 3, 0, 0]


def test_a_hidden_symbol_is_found_in_no_way() -> None:
    code = """
    lib = ctypes.CDLL("libcuda.so.1")
    pointer = ctypes.c_void_p(1)
    def proc(name, version):
        return lib.cuGetProcAddress_v2(name, ctypes.byref(pointer), version, ctypes.c_uint64(0),
            None)
    answer = [hasattr(lib, n) for n in ("cuMemAllocAsync", "cuMemFreeAsync", "cuCtxCreate_v4",
        "cuCtxCreate_v3")]
    answer += [proc(b"cuMemAllocAsync", 13000), pointer.value, proc(b"cuCtxCreate", 13000)]
    answer.append(pointer.value == ctypes.cast(lib.cuCtxCreate_v3, ctypes.c_void_p).value)
    """
    faults = "hide cuMemAllocAsync\nhide cuCtxCreate_v4\n"
    assert inside(code, faults=faults) == [False, True, False, True, 500, None, 0, True]


def test_an_xid_loses_the_contexts_that_exist_on_its_gpu() -> None:
    code = """
    first = context(0)
    answer = [rc(cu.cuMemAlloc(1)), rc(cu.cuCtxSynchronize())]
    faults("xid 0 79\\n")
    answer += [rc(cu.cuMemAlloc(1)), rc(cu.cuCtxSynchronize()), rc(cu.cuStreamCreate(0))]
    context(1); answer.append(rc(cu.cuMemAlloc(1)))
    ok(cu.cuCtxSetCurrent(0)); ok(cu.cuDevicePrimaryCtxReset(0)); context(0)
    answer += [rc(cu.cuMemAlloc(1)), stat()["gpus"][0]["xids"]]
    """
    assert driver(code, faults="# nothing yet\n") == [0, 0, 999, 999, 999, 0, 0, 1]


def test_memory_of_a_dead_process_can_stay_for_a_while() -> None:
    code = f"""{OTHER}
child = other('''
context(); p = ok(cu.cuMemAlloc(100 * MIB)); print("ready", flush=True); sys.stdin.readline()
''')
child.stdout.readline()
context()
held = lambda: [p["pid"] for p in stat()["gpus"][0]["processes"]]
child.kill(); child.wait()
killed = time.monotonic()
answer = [child.pid in held(), used() > 100 * MIB]
while child.pid in held(): time.sleep(0.01)
answer += [time.monotonic() - killed > 0.5, used() < 600 * MIB]
"""
    assert driver(code, faults="release 600ms\n") == [True, True, True, True]


def test_the_file_is_read_again_when_it_changes() -> None:
    code = """
    context()
    answer = [rc(cu.cuMemAlloc(1))]
    for text in ("fail cuMemAlloc_v2 with 2\\n", "\\n", "fail cuMemAlloc_v2 at 1 with 3\\n"):
        faults(text)
        answer += [rc(cu.cuMemAlloc(1)), rc(cu.cuMemAlloc(1))]
    """
    assert driver(code, faults="\n") == [0, 2, 2, 0, 0, 3, 0]


def test_a_bad_line_is_named_and_the_file_ignored() -> None:
    code = """
    program = "from cuda.bindings import driver as cu; print(int(cu.cuInit(0)[0]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    answer = [done.stdout, done.stderr.split(": a fault is")[0]]
    """
    bad = "fail cuInit with 2\nfail cuMemAlloc_v2 sometimes\n"
    assert inside(code, faults=bad) == ["0\n", "/run/gpusim/faults:2"]
