"""Graphs and stream capture of the simulated libcuda."""

from __future__ import annotations

import pytest

from tests.gpusim.driver import driver

GRAPHS = """
context()
spin, fill, empty = kernel("spin"), kernel("fill"), kernel("empty")
MS = 1_000_000
G, RELAXED = cu.CUstreamCaptureMode, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
GLOBAL, LOCAL = G.CU_STREAM_CAPTURE_MODE_GLOBAL, G.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
N = cu.CUgraphNodeType
keep = []
def me(gpu=0):
    "What the simulator says of this process on a GPU."
    return next((p for p in stat()["gpus"][gpu]["processes"] if p["pid"] == os.getpid()), None)
def busy(gpu=0):
    return me(gpu)["busy_ns"] if me(gpu) else 0
def violations():
    return me()["capture_violations"]
def params(function, *arguments):
    p = cu.CUDA_KERNEL_NODE_PARAMS()
    values = [np.asarray(a) for a in arguments]
    pointers = np.array([v.ctypes.data for v in values] or [0], dtype=np.uint64)
    keep.append((values, pointers))
    p.func, p.kernelParams = function, pointers.ctypes.data
    p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1
    return p
def word(pointer):
    return ctypes.c_uint32.from_address(int(pointer)).value
def run(executable, stream):
    ok(cu.cuGraphLaunch(executable, stream)); ok(cu.cuStreamSynchronize(stream))
def types(graph):
    nodes = ok(cu.cuGraphGetNodes(graph, 64))[0]
    names = [ok(cu.cuGraphNodeGetType(x)).name for x in nodes if int(x)]
    return sorted(name.removeprefix("CU_GRAPH_NODE_TYPE_") for name in names)
"""


def test_a_graph_runs_its_nodes_in_order_of_their_links_each_time() -> None:
    code = f"""{GRAPHS}
p = ok(cu.cuMemAlloc(64)); s = ok(cu.cuStreamCreate(1))
graph = ok(cu.cuGraphCreate(0))
def fill_node(needs, at, value):
    return ok(cu.cuGraphAddKernelNode(graph, needs, len(needs),
        params(fill, np.uint64(int(p) + at), np.uint32(value), np.uint64(1))))
last = fill_node([], 0, 3)
first = fill_node([], 0, 1)
middle = fill_node([first], 0, 2)
ok(cu.cuGraphAddDependencies(graph, [middle], [last], [cu.CUgraphEdgeData()], 1))
spun = ok(cu.cuGraphAddKernelNode(graph, [first], 1, params(spin, ns(MS))))
executable = ok(cu.cuGraphInstantiate(graph, 0))
answer = [busy()]
for _ in range(3):
    ok(cu.cuMemsetD32(p, 0, 1))
    before = busy()
    run(executable, s)
    answer += [word(p), (busy() - before) // MS]
edges = ok(cu.cuGraphGetEdges(graph, 10))
answer += [edges[-1], ok(cu.cuGraphGetRootNodes(graph, 10))[-1],
    [int(x) for x in ok(cu.cuGraphNodeGetDependencies(last, 5))[0][:1]] == [int(middle)],
           ok(cu.cuGraphNodeGetDependentNodes(first, 5))[-1]]
ok(cu.cuGraphAddDependencies(graph, [last], [first], [cu.CUgraphEdgeData()], 1))
answer += [rc(cu.cuGraphInstantiate(graph, 0)), rc(cu.cuGraphDestroy(graph)),
    rc(cu.cuGraphLaunch(executable, s)), rc(cu.cuGraphExecDestroy(executable))]
"""
    assert driver(code) == [0, 3, 1, 3, 1, 3, 1, 3, 1, True, 2, 1, 0, 0, 0]


def test_nodes_of_every_kind_do_what_their_command_does() -> None:
    code = f"""{GRAPHS}
s = ok(cu.cuStreamCreate(1)); ctx = ok(cu.cuCtxGetCurrent())
a, b = ok(cu.cuMemAlloc(256)), ok(cu.cuMemAlloc(256))
graph, child = ok(cu.cuGraphCreate(0)), ok(cu.cuGraphCreate(0))
memset = cu.CUDA_MEMSET_NODE_PARAMS()
memset.dst, memset.value, memset.elementSize, memset.width, memset.height = a, 17, 4, 8, 1
one = ok(cu.cuGraphAddMemsetNode(graph, [], 0, memset, ctx))
copy = cu.CUDA_MEMCPY3D()
copy.srcMemoryType = copy.dstMemoryType = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
copy.srcDevice, copy.dstDevice, copy.WidthInBytes, copy.Height, copy.Depth = a, b, 32, 1, 1
two = ok(cu.cuGraphAddMemcpyNode(graph, [one], 1, copy, ctx))
called = []
F = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
function = F(lambda _: called.append(word(b)))
host = cu.CUDA_HOST_NODE_PARAMS()
host.fn, host.userData = ctypes.cast(function, ctypes.c_void_p).value, 0
three = ok(cu.cuGraphAddHostNode(graph, [two], 1, host))
ok(cu.cuGraphAddKernelNode(child, [], 0,
    params(fill, np.uint64(int(b)), np.uint32(18), np.uint64(1))))
four = ok(cu.cuGraphAddChildGraphNode(graph, [three], 1, child)); ok(cu.cuGraphDestroy(child))
event = ok(cu.cuEventCreate(0))
five = ok(cu.cuGraphAddEventRecordNode(graph, [four], 1, event))
six = ok(cu.cuGraphAddEventWaitNode(graph, [five], 1, event))
seven = ok(cu.cuGraphAddEmptyNode(graph, [six], 1))
answer = [types(graph)]
executable = ok(cu.cuGraphInstantiate(graph, 0))
run(executable, s); answer += [called[:], word(b), rc(cu.cuEventQuery(event))]
answer += [ok(cu.cuGraphMemsetNodeGetParams(one)).value,
    int(ok(cu.cuGraphMemcpyNodeGetParams(two)).dstDevice) == int(b)]
memset.value = 27
ok(cu.cuGraphExecMemsetNodeSetParams(executable, one, memset, ctx))
run(executable, s)
answer += [called[-1]]
ok(cu.cuGraphNodeSetEnabled(executable, two, 0))
ok(cu.cuMemsetD32(b, 99, 1))
run(executable, s)
answer += [called[-1], ok(cu.cuGraphNodeGetEnabled(executable, two))]
clone = ok(cu.cuGraphClone(graph)); answer.append(types(clone) == types(graph))
"""
    kinds = ["EMPTY", "EVENT_RECORD", "GRAPH", "HOST", "MEMCPY", "MEMSET", "WAIT_EVENT"]
    assert driver(code) == [kinds, [17], 18, 0, 17, True, 27, 99, 0, True]


def test_graph_memory_is_taken_at_launch_and_kept_until_trimmed() -> None:
    code = f"""{GRAPHS}
s = ok(cu.cuStreamCreate(1))
base = used()
A = cu.CUgraphMem_attribute
def attribute(name):
    which = getattr(A, "CU_GRAPH_MEM_ATTR_" + name)
    return int(ok(cu.cuDeviceGetGraphMemAttribute(0, which))) // MIB
ok(cu.cuStreamBeginCapture(s, RELAXED))
p = ok(cu.cuMemAllocAsync(5 * MIB, s)); q = ok(cu.cuMemAllocAsync(3 * MIB, s))
ok(cu.cuMemsetD32Async(p, 8, 10, s)); ok(cu.cuMemFreeAsync(q, s))
graph = ok(cu.cuStreamEndCapture(s))
executable = ok(cu.cuGraphInstantiate(graph, 0))
answer = [types(graph), (used() - base) // MIB]
run(executable, s)
answer += [word(p), (used() - base) // MIB, attribute("USED_MEM_CURRENT"),
    attribute("RESERVED_MEM_CURRENT"), attribute("USED_MEM_HIGH")]
answer += [rc(cu.cuGraphLaunch(executable, s))]  # p was not freed
ok(cu.cuMemFreeAsync(p, s))
ok(cu.cuStreamSynchronize(s))
answer += [attribute("USED_MEM_CURRENT"), (used() - base) // MIB]
run(executable, s); answer.append((used() - base) // MIB)
ok(cu.cuMemFree(p)); ok(cu.cuDeviceGraphMemTrim(0)); answer += [used() - base]
ok(cu.cuGraphExecDestroy(executable))
ok(cu.cuGraphDestroy(graph))
answer.append(rc(cu.cuMemFree(p)))
"""
    assert driver(code) == [
        *(["MEMSET", "MEM_ALLOC", "MEM_ALLOC", "MEM_FREE"], 0),
        *(8, 8, 5, 8, 8, 1, 0, 8, 8, 0, 1),
    ]


def test_graph_memory_that_does_not_fit_refuses_the_launch(small: str) -> None:
    code = f"""{GRAPHS}
s = ok(cu.cuStreamCreate(1))
ok(cu.cuStreamBeginCapture(s, RELAXED))
p = ok(cu.cuMemAllocAsync(1500 * MIB, s)); ok(cu.cuMemFreeAsync(p, s))
executable = ok(cu.cuGraphInstantiate(ok(cu.cuStreamEndCapture(s)), 0))
big = ok(cu.cuMemAlloc(1000 * MIB))
answer = [rc(cu.cuGraphLaunch(executable, s)), rc(cu.cuMemFree(big)),
    rc(cu.cuGraphLaunch(executable, s)), rc(cu.cuStreamSynchronize(s))]
"""
    assert driver(code, machine=small) == [2, 0, 0, 0]


def test_an_executable_graph_is_updated_by_one_of_the_same_shape_only() -> None:
    code = f"""{GRAPHS}
p = ok(cu.cuMemAlloc(64)); s = ok(cu.cuStreamCreate(1))
def make(value, extra=False, swap=False):
    graph = ok(cu.cuGraphCreate(0))
    one = ok(cu.cuGraphAddKernelNode(graph, [], 0,
        params(fill, np.uint64(int(p)), np.uint32(value), np.uint64(1))))
    if swap: ok(cu.cuGraphAddEmptyNode(graph, [one], 1))
    else: ok(cu.cuGraphAddKernelNode(graph, [one], 1, params(spin, ns(1000))))
    if extra: ok(cu.cuGraphAddEmptyNode(graph, [one], 1))
    return graph
executable = ok(cu.cuGraphInstantiate(make(1), 0))
run(executable, s); answer = [word(p)]
lib = ctypes.CDLL("libcuda.so.1")
def update(graph):
    info = (ctypes.c_int * 6)()  # the result, and two nodes
    code = lib.cuGraphExecUpdate_v2(ctypes.c_void_p(int(executable)), ctypes.c_void_p(int(graph)),
        info)
    return [code, cu.CUgraphExecUpdateResult(info[0]).name.removeprefix("CU_GRAPH_EXEC_UPDATE_")]
answer += [update(make(2))]; run(executable, s); answer.append(word(p))
answer += [update(make(3, extra=True)), update(make(3, swap=True))]
run(executable, s)
answer.append(word(p))
"""
    assert driver(code) == [
        *(1, [0, "SUCCESS"], 2, [910, "ERROR_TOPOLOGY_CHANGED"]),
        *([910, "ERROR_NODE_TYPE_CHANGED"], 2),
    ]


def test_kernel_parameters_of_nodes_are_kept_and_changed() -> None:
    code = f"""{GRAPHS}
p = ok(cu.cuMemAlloc(64)); s = ok(cu.cuStreamCreate(1))
graph = ok(cu.cuGraphCreate(0))
node = ok(cu.cuGraphAddKernelNode(graph, [], 0,
    params(fill, np.uint64(int(p)), np.uint32(5), np.uint64(2))))
got = ok(cu.cuGraphKernelNodeGetParams(node))
values = ctypes.cast(got.kernelParams, ctypes.POINTER(ctypes.c_void_p))
answer = [ctypes.c_uint32.from_address(values[1]).value,
    ctypes.c_uint64.from_address(values[2]).value]
executable = ok(cu.cuGraphInstantiate(graph, 0))
ok(cu.cuGraphExecKernelNodeSetParams(executable, node,
    params(fill, np.uint64(int(p)), np.uint32(6), np.uint64(1))))
ok(cu.cuGraphKernelNodeSetParams(node, params(fill, np.uint64(int(p)), np.uint32(7), np.uint64(1))))
run(executable, s); answer.append(word(p))
run(ok(cu.cuGraphInstantiate(graph, 0)), s); answer.append(word(p))
"""
    assert driver(code) == [5, 2, 6, 7]


def test_a_graph_of_two_gpus_runs_on_both() -> None:
    code = f"""{GRAPHS}
graph = ok(cu.cuGraphCreate(0)); s = ok(cu.cuStreamCreate(1))
one = ok(cu.cuGraphAddKernelNode(graph, [], 0, params(spin, ns(20 * MS))))
first = ok(cu.cuCtxGetCurrent()); context(1)
two = ok(cu.cuGraphAddKernelNode(graph, [one], 1, params(kernel("spin"), ns(7 * MS))))
ok(cu.cuCtxSetCurrent(first))
executable = ok(cu.cuGraphInstantiate(graph, 0))
run(executable, s)
answer = [busy(0) // MS, busy(1) // MS]
"""
    assert driver(code) == [20, 7]


def test_a_captured_stream_becomes_a_graph_and_nothing_runs_meanwhile() -> None:
    code = f"""{GRAPHS}
s, other = ok(cu.cuStreamCreate(1)), ok(cu.cuStreamCreate(1))
p = ok(cu.cuMemAlloc(64)); ok(cu.cuMemsetD32(p, 1, 1)); ok(cu.cuCtxSynchronize())
forked, joined = ok(cu.cuEventCreate(2)), ok(cu.cuEventCreate(2))
S = cu.CUstreamCaptureStatus
answer = []
for mode in (GLOBAL, LOCAL, RELAXED):
    ok(cu.cuMemsetD32(p, 1, 1)); ok(cu.cuCtxSynchronize()); before = busy()
    ok(cu.cuStreamBeginCapture(s, mode))
    answer.append(ok(cu.cuStreamIsCapturing(s)).value)
    launch(spin, ns(MS), stream=s); ok(cu.cuMemsetD32Async(p, 9, 1, s))
    ok(cu.cuEventRecord(forked, s)); ok(cu.cuStreamWaitEvent(other, forked, 0))
    launch(spin, ns(MS), stream=other)
    ok(cu.cuEventRecord(joined, other))
    ok(cu.cuStreamWaitEvent(s, joined, 0))
    answer += [ok(cu.cuStreamIsCapturing(other)).value, word(p)]
    launch(empty, stream=s)
    graph = ok(cu.cuStreamEndCapture(s))
    answer += [types(graph), ok(cu.cuStreamIsCapturing(other)).value, busy() - before]
    run(ok(cu.cuGraphInstantiate(graph, 0)), s)
    answer += [word(p), (busy() - before) // MS]
answer.append(violations())
"""
    nodes = ["KERNEL", "KERNEL", "KERNEL", "MEMSET"]
    assert driver(code) == [1, 1, 1, nodes, 0, 0, 9, 2] * 3 + [0]


FORBIDDEN = """
def forbidden():
    "What calls that a capture may not like return, made in this thread."
    return [rc(cu.cuMemAlloc(1)), rc(cu.cuEventQuery(quiet)), rc(cu.cuStreamQuery(idle))]
s, idle, quiet = ok(cu.cuStreamCreate(1)), ok(cu.cuStreamCreate(1)), ok(cu.cuEventCreate(0))
ctx = ok(cu.cuCtxGetCurrent())
def elsewhere(mode=None):
    "The same in another thread, perhaps with another mode of that thread."
    result = []
    def body():
        ok(cu.cuCtxSetCurrent(ctx))
        if mode is not None: ok(cu.cuThreadExchangeStreamCaptureMode(mode))
        result.extend(forbidden())
    t = threading.Thread(target=body); t.start(); t.join()
    return result
def attempt(mode, act):
    "What the calls return during a capture of the mode, and what ending it says."
    ok(cu.cuStreamBeginCapture(s, mode)); launch(empty, stream=s)
    before = violations(); result = act(); more = violations() - before
    return [result, rc(cu.cuStreamEndCapture(s)), more]
"""


@pytest.mark.parametrize(
    "mode, here, there, there_local, there_relaxed",
    [
        ("GLOBAL", [900] * 3, [900] * 3, [0] * 3, [0] * 3),
        ("LOCAL", [900] * 3, [0] * 3, [0] * 3, [0] * 3),
        ("RELAXED", [0] * 3, [0] * 3, [0] * 3, [0] * 3),
    ],
)
def test_calls_that_may_disturb_a_capture_are_refused_by_mode(
    mode: str, here: list[int], there: list[int], there_local: list[int], there_relaxed: list[int]
) -> None:
    code = f"""{GRAPHS}{FORBIDDEN}
answer = [attempt({mode}, forbidden), attempt({mode}, elsewhere),
    attempt({mode}, lambda: elsewhere(LOCAL)),
          attempt({mode}, lambda: elsewhere(RELAXED)), forbidden()]
"""

    def outcome(codes: list[int]) -> list[object]:
        return [codes, 901 if any(codes) else 0, 3 if any(codes) else 0]

    assert driver(code) == [
        *(outcome(codes) for codes in (here, there, there_local, there_relaxed)),
        [0] * 3,
    ]


def test_synchronising_what_is_captured_ends_the_capture() -> None:
    code = f"""{GRAPHS}{FORBIDDEN}
blocking = ok(cu.cuStreamCreate(0)); inside = ok(cu.cuEventCreate(0))
def with_event():
    ok(cu.cuEventRecord(inside, s)); return [rc(cu.cuEventQuery(inside)), rc(cu.cuStreamQuery(s))]
def implicit():
    ok(cu.cuStreamBeginCapture(blocking, RELAXED))
    result = [launch(empty), rc(cu.cuMemcpyDtoH(np.zeros(1).ctypes.data, p, 4)),
        launch(empty, stream=blocking)]
    return result + [rc(cu.cuStreamEndCapture(blocking))]
p = ok(cu.cuMemAlloc(64))
answer = [
    attempt(RELAXED, lambda: rc(cu.cuStreamSynchronize(s))),
    attempt(RELAXED, lambda: rc(cu.cuCtxSynchronize())),
    attempt(RELAXED, with_event),
    attempt(RELAXED, implicit),
    attempt(RELAXED, lambda: launch(empty, stream=s)),
]
"""
    assert driver(code) == [
        *([900, 901, 1], [900, 901, 1], [[907, 900], 901, 2]),
        *([[906, 906, 901, 901], 0, 2], [0, 0, 0]),
    ]


def test_captures_that_are_not_whole_are_refused() -> None:
    code = f"""{GRAPHS}{FORBIDDEN}
e, outside = ok(cu.cuEventCreate(2)), ok(cu.cuEventCreate(2))
ok(cu.cuEventRecord(outside, idle)); ok(cu.cuCtxSynchronize())
def fork():
    ok(cu.cuEventRecord(e, s))
    ok(cu.cuStreamWaitEvent(idle, e, 0))
    return launch(empty, stream=idle)
def foreign(): return rc(cu.cuStreamWaitEvent(s, outside, 0))
def merge():
    third = ok(cu.cuStreamCreate(1))
    ok(cu.cuStreamBeginCapture(third, RELAXED))
    ok(cu.cuEventRecord(e, third))
    return [rc(cu.cuStreamWaitEvent(s, e, 0)), rc(cu.cuStreamEndCapture(third))]
def from_other_thread():
    result = []
    t = threading.Thread(target=lambda: (cu.cuCtxSetCurrent(ctx),
        result.append(rc(cu.cuStreamEndCapture(s)))))
    t.start(); t.join(); return result
def twice(): return rc(cu.cuStreamBeginCapture(s, RELAXED))
answer = [attempt(RELAXED, f) for f in (fork, foreign, merge, twice)] + [attempt(GLOBAL,
    from_other_thread)]
answer += [rc(cu.cuStreamEndCapture(s)), rc(cu.cuStreamBeginCapture(0, RELAXED)),
    rc(cu.cuStreamQuery(idle))]
"""
    assert driver(code) == [
        *([0, 904, 0], [905, 901, 1], [[902, 901], 901, 1], [401, 0, 0], [[908], 0, 0]),
        *(401, 900, 0),
    ]


def test_a_graph_launched_into_a_capture_becomes_a_child() -> None:
    code = f"""{GRAPHS}
s = ok(cu.cuStreamCreate(1))
graph = ok(cu.cuGraphCreate(0)); ok(cu.cuGraphAddKernelNode(graph, [], 0, params(spin, ns(3 * MS))))
executable = ok(cu.cuGraphInstantiate(graph, 0))
ok(cu.cuStreamBeginCapture(s, GLOBAL))
ok(cu.cuGraphLaunch(executable, s))
ok(cu.cuGraphLaunch(executable, s))
outer = ok(cu.cuStreamEndCapture(s))
answer = [types(outer), busy()]
run(ok(cu.cuGraphInstantiate(outer, 0)), s); answer.append(busy() // MS)
"""
    assert driver(code) == [["GRAPH", "GRAPH"], 0, 6]


def test_user_objects_go_with_their_last_graph() -> None:
    code = f"""{GRAPHS}
gone = []
F = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
function = F(lambda _: gone.append(1))
thing = ok(cu.cuUserObjectCreate(0, ctypes.cast(function, ctypes.c_void_p).value, 1, 1))
graph = ok(cu.cuGraphCreate(0)); ok(cu.cuGraphRetainUserObject(graph, thing, 1, 1))
executable = ok(cu.cuGraphInstantiate(graph, 0))
answer = [len(gone)]
ok(cu.cuGraphDestroy(graph)); answer.append(len(gone))
ok(cu.cuGraphExecDestroy(executable)); answer.append(len(gone))
"""
    assert driver(code) == [0, 0, 1]
