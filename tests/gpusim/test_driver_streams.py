"""Streams, events, launches and device time of the simulated libcuda."""

from __future__ import annotations

from tests.gpusim.driver import OTHER, driver

SPIN = """
context()
spin, empty, fill, add = (kernel(k) for k in ("spin", "empty", "fill", "vector_add"))
MS = 1_000_000
def busy(gpu=0):
    "Busy ns of this process on a GPU, by the simulator."
    return next((p["busy_ns"] for p in stat()["gpus"][gpu]["processes"] if p["pid"] == os.getpid()),
        0)
def elapsed(a, b):
    return ok(cu.cuEventElapsedTime(a, b))
"""


def test_kernels_take_the_time_they_say_whatever_the_grid() -> None:
    code = f"""{SPIN}
s = ok(cu.cuStreamCreate(0))
answer = []
for grid in [(1, 1, 1), (65536, 65535, 2), (2**31 - 1, 65535, 65535)]:
    before = busy()
    a, b = ok(cu.cuEventCreate(0)), ok(cu.cuEventCreate(0))
    ok(cu.cuEventRecord(a, s))
    for _ in range(5): assert launch(spin, ns(3 * MS), stream=s, grid=grid) == 0
    ok(cu.cuEventRecord(b, s))
    answer += [rc(cu.cuEventQuery(b)), rc(cu.cuEventSynchronize(b)), busy() - before,
        15 <= elapsed(a, b)]
answer += [launch(empty, stream=s), rc(cu.cuStreamSynchronize(s)), busy() - before]
"""
    assert driver(code) == [600, 0, 15_000_000, True] * 3 + [0, 0, 15_000_000]


def test_kernels_that_compute_do_and_take_time_by_bytes() -> None:
    code = f"""{SPIN}
count = 1 << 20
a, b, c = (ok(cu.cuMemAlloc(4 * count)) for _ in range(3))
before = busy()
answer = [launch(fill, np.uint64(int(a)), np.uint32(7), np.uint64(count)),
    rc(cu.cuCtxSynchronize())]
answer += [bool((download(a, count) == 7).all()), round((busy() - before) * 1555 / (4 * count), 1)]
for p, value in ((a, 1.5), (b, 2.25)):
    ok(cu.cuMemsetD32(p, int(np.float32(value).view(np.uint32)), count))
answer += [launch(add, *(np.uint64(int(p)) for p in (a, b, c)), np.uint64(count))]
answer += [bool((download(c, count, np.float32) == 3.75).all())]
answer += [launch(fill, np.uint64(0x1234), np.uint32(7), np.uint64(1)), rc(cu.cuCtxSynchronize()),
    rc(cu.cuMemAlloc(1))]
"""
    assert driver(code, machine="a100-pcie-4") == [0, 0, True, 1.0, 0, True, 0, 700, 700]


def test_bad_launches_are_refused() -> None:
    code = f"""{SPIN}
answer = [
    launch(spin, ns(1), grid=(0, 1, 1)), launch(spin, ns(1), block=(1025, 1, 1)),
    launch(spin, ns(1), block=(32, 33, 1)), launch(spin, ns(1), grid=(1, 65536, 1)),
    rc(cu.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)), rc(cu.cuLaunchKernel(spin, 1, 1, 1,
        1, 1, 1, 200000, 0, 0, 0)),
    rc(cu.cuLaunchCooperativeKernel(empty, 2**20, 1, 1, 1024, 1, 1, 0, 0, 0)),
    rc(cu.cuLaunchCooperativeKernel(empty, 2 * 108, 1, 1, 1024, 1, 1, 0, 0, 0)),
    rc(cu.cuLaunchCooperativeKernel(empty, 2 * 108 + 1, 1, 1, 1024, 1, 1, 0, 0, 0)),
]
"""
    assert driver(code, machine="a100-pcie-4") == [1, 1, 1, 1, 1, 1, 720, 0, 720]


def test_every_way_of_launching_costs_the_same() -> None:
    code = f"""{SPIN}
s = ok(cu.cuStreamCreate(0))
argument = np.array([2 * MS], dtype=np.uint64)
pointers = np.array([argument.ctypes.data], dtype=np.uint64)
def cost(act):
    before = busy()
    act()
    ok(cu.cuStreamSynchronize(s))
    ok(cu.cuCtxSynchronize())
    return busy() - before
config = cu.CUlaunchConfig()
def one_thread(target):
    for name in ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ"):
        setattr(target, name, 1)
one_thread(config)
config.hStream = s
params = cu.CUDA_LAUNCH_PARAMS()
params.function, params.hStream, params.kernelParams = spin, s, pointers.ctypes.data
one_thread(params)
graph = ok(cu.cuGraphCreate(0))
node = cu.CUDA_KERNEL_NODE_PARAMS()
node.func, node.kernelParams = spin, pointers.ctypes.data
one_thread(node)
ok(cu.cuGraphAddKernelNode(graph, [], 0, node))
executable = ok(cu.cuGraphInstantiate(graph, 0))
lib = ctypes.CDLL("libcuda.so.1")
f = ctypes.c_void_p(int(spin))
answer = [
    cost(lambda: launch(spin, ns(2 * MS), stream=s)),
    cost(lambda: ok(cu.cuLaunchKernelEx(config, spin, pointers.ctypes.data, 0))),
    cost(lambda: ok(cu.cuLaunchCooperativeKernel(spin, 1, 1, 1, 1, 1, 1, 0, s,
        pointers.ctypes.data))),
    cost(lambda: lib.cuLaunchCooperativeKernelMultiDevice(ctypes.c_void_p(params.getPtr()), 1, 0)),
    cost(lambda: ok(cu.cuGraphLaunch(executable, s))),
    cost(lambda: lib.cuLaunchKernel_ptsz(f, 1, 1, 1, 1, 1, 1, 0, None,
        ctypes.c_void_p(pointers.ctypes.data), None)),
    cost(lambda: (lib.cuParamSetv(f, 0, ctypes.c_void_p(argument.ctypes.data), 8),
        lib.cuLaunch(f))),
]
"""
    assert driver(code) == [2_000_000] * 7


def test_a_full_queue_makes_a_launch_wait() -> None:
    code = f"""{SPIN}
s = ok(cu.cuStreamCreate(0))
launched = []
def fill_up():
    while True:
        launch(spin, ns(10**12), stream=s)
        launched.append(1)
threading.Thread(target=fill_up, daemon=True).start()
while len(launched) < 1024: time.sleep(0.01)
time.sleep(0.1)
print(json.dumps([len(launched), rc(cu.cuStreamQuery(s))]), flush=True)
os._exit(0)
"""
    assert driver(code) == [1024, 600]


def test_events_order_streams_and_mark_their_moment() -> None:
    code = f"""{SPIN}
a, b = ok(cu.cuStreamCreate(1)), ok(cu.cuStreamCreate(1))
start, middle, end = (ok(cu.cuEventCreate(0)) for _ in range(3))
answer = [rc(cu.cuEventQuery(start)), rc(cu.cuEventElapsedTime(start, end))]
ok(cu.cuEventRecord(start, a))
launch(spin, ns(10 * MS), stream=a)
ok(cu.cuEventRecord(middle, a))
ok(cu.cuStreamWaitEvent(b, middle, 0))
launch(spin, ns(5 * MS), stream=b)
ok(cu.cuEventRecord(end, b))
answer += [rc(cu.cuEventElapsedTime(start, end)), rc(cu.cuEventSynchronize(middle)),
    rc(cu.cuStreamQuery(a)), rc(cu.cuStreamQuery(b))]
ok(cu.cuStreamSynchronize(b))
answer += [round(elapsed(start, middle)), round(elapsed(middle, end), 3), rc(cu.cuEventQuery(end))]
late = ok(cu.cuEventCreate(2))
answer += [rc(cu.cuEventRecord(late, a)), rc(cu.cuEventElapsedTime(start, late)),
    rc(cu.cuEventDestroy(late))]
"""
    assert driver(code) == [0, 400, 600, 0, 0, 600, 10, 5.0, 0, 0, 400, 0]


def test_event_times_survive_thousands_of_pauses() -> None:
    code = f"""{SPIN}
s = ok(cu.cuStreamCreate(0))
start, end = ok(cu.cuEventCreate(0)), ok(cu.cuEventCreate(0))
launch(spin, ns(2 * MS), stream=s)
ok(cu.cuEventRecord(start, s)); launch(spin, ns(3 * MS), stream=s); ok(cu.cuEventRecord(end, s))
for _ in range(2000):
    launch(spin, ns(1000), stream=s); ok(cu.cuStreamSynchronize(s))
answer = elapsed(start, end)
"""
    assert driver(code) == 3.0


def test_the_default_stream_waits_for_blocking_streams_and_they_for_it() -> None:
    code = f"""{SPIN}
blocking, free = ok(cu.cuStreamCreate(0)), ok(cu.cuStreamCreate(1))
word = np.zeros(1, dtype=np.uint32)
p = ok(cu.cuMemAlloc(4))
launch(spin, ns(40 * MS), stream=blocking)
answer = [rc(cu.cuStreamQuery(0)), rc(cu.cuMemcpyDtoH(word.ctypes.data, p, 4)),
    rc(cu.cuStreamQuery(blocking)), busy() // MS]
launch(spin, ns(40 * MS), stream=0); launch(empty, stream=blocking)
answer += [rc(cu.cuStreamQuery(blocking)), rc(cu.cuStreamSynchronize(blocking)), busy() // MS]
launch(spin, ns(10**12), stream=free)  # for ever
answer += [rc(cu.cuStreamSynchronize(0)), rc(cu.cuStreamSynchronize(blocking)),
    rc(cu.cuStreamQuery(free))]
"""
    assert driver(code) == [600, 0, 0, 40, 600, 0, 80, 0, 0, 600]


HOST = """
calls = []
PLAIN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def host(act):
    "A host function; kept alive."
    function = PLAIN(lambda _: act())
    calls.append(function)
    return ctypes.cast(function, ctypes.c_void_p).value
"""


def test_host_functions_run_in_order_and_hold_their_stream_back() -> None:
    code = f"""{SPIN}{HOST}
s, other = ok(cu.cuStreamCreate(1)), ok(cu.cuStreamCreate(1))
seen, gate = [], threading.Event()
p = ok(cu.cuMemAlloc(4)); ok(cu.cuMemsetD32(p, 1, 1)); ok(cu.cuCtxSynchronize())
def look(name): return lambda: seen.append((name, busy() // MS))
launch(spin, ns(10 * MS), stream=s)
ok(cu.cuLaunchHostFunc(s, host(look("first")), 0))
ok(cu.cuLaunchHostFunc(s, host(gate.wait), 0))
launch(spin, ns(5 * MS), stream=s)
ok(cu.cuMemsetD32Async(p, 2, 1, s))
event = ok(cu.cuEventCreate(2)); ok(cu.cuEventRecord(event, s))
ok(cu.cuLaunchHostFunc(s, host(look("second")), 0))
ok(cu.cuStreamWaitEvent(other, event, 0)); ok(cu.cuMemsetD32Async(p, 3, 1, other))
time.sleep(0.05)
answer = [busy() // MS, rc(cu.cuStreamQuery(s)), rc(cu.cuEventQuery(event)),
    rc(cu.cuStreamQuery(other)), ctypes.c_uint32.from_address(int(p)).value]
gate.set()
answer += [rc(cu.cuStreamSynchronize(other)), ctypes.c_uint32.from_address(int(p)).value,
    rc(cu.cuStreamSynchronize(s)), seen]
"""
    assert driver(code) == [10, 600, 600, 600, 1, 0, 3, 0, [["first", 10], ["second", 15]]]


def test_a_copy_held_back_takes_pageable_memory_as_it_was() -> None:
    code = f"""{SPIN}{HOST}
s, gate = ok(cu.cuStreamCreate(1)), threading.Event()
p = ok(cu.cuMemAlloc(4))
ok(cu.cuLaunchHostFunc(s, host(gate.wait), 0))
word = np.array([11], dtype=np.uint32)
ok(cu.cuMemcpyHtoDAsync(p, word.ctypes.data, 4, s))
word[0] = 12
gate.set(); ok(cu.cuStreamSynchronize(s))
answer = int(download(p, 1)[0])
"""
    assert driver(code) == 11


def test_a_stream_destroyed_with_work_still_does_it() -> None:
    code = f"""{SPIN}{HOST}
s, gate, seen = ok(cu.cuStreamCreate(1)), threading.Event(), []
ok(cu.cuLaunchHostFunc(s, host(gate.wait), 0))
ok(cu.cuLaunchHostFunc(s, host(lambda: seen.append(1)), 0))
answer = [rc(cu.cuStreamDestroy(s)), seen[:]]
gate.set(); ok(cu.cuCtxSynchronize()); answer.append(seen)
"""
    assert driver(code) == [0, [], [1]]


def test_streams_wait_for_values_and_write_them() -> None:
    code = f"""{SPIN}
W = cu.CUstreamWaitValue_flags
s = ok(cu.cuStreamCreate(1))
p = ok(cu.cuMemAlloc(16)); ok(cu.cuMemsetD32(p, 0, 4)); ok(cu.cuCtxSynchronize())
word = [ctypes.c_uint32.from_address(int(p) + 4 * i) for i in range(4)]
ok(cu.cuStreamWaitValue32(s, p, 3, W.CU_STREAM_WAIT_VALUE_GEQ.value))
ok(cu.cuStreamWriteValue32(s, int(p) + 4, 44, 0))
time.sleep(0.02)
answer = [rc(cu.cuStreamQuery(s)), word[1].value]
word[0].value = 2; time.sleep(0.02); answer.append(rc(cu.cuStreamQuery(s)))
word[0].value = 5; ok(cu.cuStreamSynchronize(s)); answer.append(word[1].value)
ok(cu.cuStreamWriteValue64(s, int(p) + 8, 2**40, 0)); ok(cu.cuStreamSynchronize(s))
answer += [word[3].value, rc(cu.cuStreamWaitValue32(s, 0x1234, 3, 0)),
    rc(cu.cuStreamWriteValue32(s, int(p) + 1, 3, 0))]
"""
    assert driver(code) == [600, 0, 600, 44, 256, 1, 1]


def test_work_on_two_gpus_is_ordered_by_events() -> None:
    code = f"""{SPIN}
first = ok(cu.cuCtxGetCurrent())
a = ok(cu.cuStreamCreate(1)); done = ok(cu.cuEventCreate(2))
launch(spin, ns(30 * MS), stream=a); ok(cu.cuEventRecord(done, a))
context(1)
b = ok(cu.cuStreamCreate(1)); p = ok(cu.cuMemAlloc(4))
elsewhere = kernel("spin")
ok(cu.cuStreamWaitEvent(b, done, 0)); launch(elsewhere, ns(5 * MS), stream=b)
answer = [busy(1), rc(cu.cuStreamQuery(b)), rc(cu.cuStreamSynchronize(b)),
    rc(cu.cuEventQuery(done)), busy(0) // MS, busy(1) // MS]
answer.append(rc(cu.cuEventRecord(done, b)))  # an event belongs to its device
"""
    assert driver(code) == [0, 600, 0, 0, 30, 5, 400]


def test_an_event_is_waited_for_by_another_process() -> None:
    code = f"""{OTHER}{SPIN}
s = ok(cu.cuStreamCreate(1)); event = ok(cu.cuEventCreate(2 | 4))
handle = bytes(ok(cu.cuIpcGetEventHandle(event)).reserved)
child = other('''
context()
handle = cu.CUipcEventHandle(); handle.reserved = bytes.fromhex(sys.argv[1])
event = ok(cu.cuIpcOpenEventHandle(handle))
print(rc(cu.cuEventQuery(event)), flush=True)
sys.stdin.readline()
first = rc(cu.cuEventQuery(event))
s = ok(cu.cuStreamCreate(1)); ok(cu.cuStreamWaitEvent(s, event, 0))
print(first, rc(cu.cuStreamQuery(s)), rc(cu.cuStreamSynchronize(s)), rc(cu.cuEventQuery(event)),
    flush=True)
''', handle.hex())
answer = [child.stdout.readline()]
launch(spin, ns(200 * MS), stream=s); ok(cu.cuEventRecord(event, s))
print(file=child.stdin, flush=True)
answer += [child.stdout.readline(), rc(cu.cuEventQuery(event))]
"""
    assert driver(code) == ["0\n", "600 600 0 0\n", 0]


def test_an_event_of_a_process_that_died_holds_nobody() -> None:
    code = f"""{OTHER}{SPIN}
child = other('''
context()
event = ok(cu.cuEventCreate(2 | 4)); f = kernel("spin")
launch(f, np.uint64(10**12)); ok(cu.cuEventRecord(event, 0))
print(bytes(ok(cu.cuIpcGetEventHandle(event)).reserved).hex(), flush=True)
sys.stdin.readline()
''')
handle = cu.CUipcEventHandle(); handle.reserved = bytes.fromhex(child.stdout.readline().strip())
event = ok(cu.cuIpcOpenEventHandle(handle))
s = ok(cu.cuStreamCreate(1)); ok(cu.cuStreamWaitEvent(s, event, 0)); launch(empty, stream=s)
answer = [rc(cu.cuEventQuery(event)), rc(cu.cuStreamQuery(s))]
child.kill(); child.wait()
answer += [rc(cu.cuStreamSynchronize(s)), rc(cu.cuEventQuery(event))]
"""
    assert driver(code) == [600, 600, 0, 0]


def test_waiting_takes_no_cpu() -> None:
    code = f"""{SPIN}
import resource
launch(spin, ns(300 * MS))
before = resource.getrusage(resource.RUSAGE_SELF)
ok(cu.cuCtxSynchronize())
after = resource.getrusage(resource.RUSAGE_SELF)
answer = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime) < 0.030
"""
    assert driver(code) is True


def test_attributes_of_streams_are_kept() -> None:
    code = """
    context()
    s = ok(cu.cuStreamCreateWithPriority(1, -9))
    answer = [ok(cu.cuCtxGetStreamPriorityRange()), ok(cu.cuStreamGetPriority(s)),
        ok(cu.cuStreamGetFlags(s)),
              int(ok(cu.cuStreamGetDevice(s))), rc(cu.cuStreamCreate(8)), ok(cu.cuStreamGetId(
                  s)) != ok(cu.cuStreamGetId(0))]
    """
    assert driver(code) == [[0, -5], -5, 1, 0, 1, True]


def test_the_child_of_a_fork_cannot_use_cuda_and_harms_nobody() -> None:
    code = """
    context()
    p = ok(cu.cuMemAlloc(MIB))
    base = used()
    answer = []
    for ending in ("os._exit(0)", "sys.exit(0)", "os.kill(os.getpid(), 9)"):
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(w,
                json.dumps([rc(cu.cuInit(0)), rc(cu.cuMemAlloc(1)),
                    rc(cu.cuDriverGetVersion())]).encode())
            os.close(w)
            try:
                exec(ending)
            finally:
                os._exit(0)
        os.close(w)
        answer.append(json.loads(os.read(r, 100)))
        os.waitpid(pid, 0)
        answer += [used() - base, rc(cu.cuMemsetD8(p, 1, MIB))]
    """
    assert driver(code) == [[3, 3, 0], 0, 0] * 3


def test_a_green_context_keeps_the_primary_one_and_runs() -> None:
    code = f"""{SPIN}
R = cu.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
base = used()
whole = ok(cu.cuDeviceGetDevResource(0, R))
parts, groups, rest = ok(cu.cuDevSmResourceSplitByCount(2, whole, 0, 20))
answer = [whole.sm.smCount, groups, [p.sm.smCount for p in parts], rest.sm.smCount]
desc = ok(cu.cuDevResourceGenerateDesc(parts[:1], 1))
green = ok(cu.cuGreenCtxCreate(desc, 0, 1))
ctx = ok(cu.cuCtxFromGreenCtx(green))
s = ok(cu.cuGreenCtxStreamCreate(green, 1, 0))
answer += [launch(spin, ns(4 * MS), stream=s), rc(cu.cuStreamSynchronize(s)), busy() // MS,
    used() - base]
answer += [ok(cu.cuCtxGetDevResource(ctx, R)).sm.smCount,
    int(ok(cu.cuStreamGetGreenCtx(s))) == int(green)]
ok(cu.cuCtxSetCurrent(0)); ok(cu.cuDevicePrimaryCtxRelease(0))
answer.append(ok(cu.cuDevicePrimaryCtxGetState(0))[1])
ok(cu.cuGreenCtxDestroy(green))
answer += [ok(cu.cuDevicePrimaryCtxGetState(0))[1], stat()["gpus"][0]["used"]]
"""
    assert driver(code, machine="a100-pcie-4") == [
        *(108, 2, [24, 24], 60, 0, 0, 4, 0, 24, True, 1, 0, 0),
    ]


def test_what_a_blocking_stream_waits_for_the_default_stream_waits_for_too() -> None:
    code = f"""{SPIN}
free, blocking = ok(cu.cuStreamCreate(1)), ok(cu.cuStreamCreate(0))
event = ok(cu.cuEventCreate(2))
launch(spin, ns(60 * MS), stream=free)
ok(cu.cuEventRecord(event, free))
ok(cu.cuStreamWaitEvent(blocking, event, 0))
answer = [rc(cu.cuStreamQuery(0)), rc(cu.cuStreamSynchronize(0)), rc(cu.cuStreamQuery(free))]
"""
    assert driver(code) == [600, 0, 0]
