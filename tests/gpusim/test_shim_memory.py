"""The quota over every kind of memory, asked with NVIDIA's own cuda-bindings.

The oracle is the simulator's own count. Most claims are the reverse of a symptom that users
reported of other shims.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import dedent

import pytest

from tests.gpusim.step import GIB, KIB, MIB, Step

CONTEXT = 256 * MIB  # what the simulated machine takes for one
QUOTA = GIB
KINDS = (
    "linear", "pitch", "managed", "async", "pool", "vmm", "shareable", "array", "array3d", "mipmap",
    "graph", "module", "context",
)  # fmt: skip


@pytest.fixture(scope="module")
def step(step: Step) -> Iterator[Step]:
    yield step
    # Over all that the tests of this module did: not for an instant more than the quota.
    assert step.run("answer = stat()['gpus'][0]['peak']") <= QUOTA


# --- what a program sees --------------------------------------------------------------------------


def test_info_shows_the_quota_and_the_charges(step: Step) -> None:
    code = """
    start()
    before = info()
    pointer = ok(d.cuMemAlloc(100 * MIB))
    during = info()
    ok(d.cuMemFree(pointer))
    answer = [before, during, info(), ok(d.cuDeviceTotalMem(0)), held()]
    """
    base = [QUOTA - CONTEXT, QUOTA]
    assert step.run(code) == [base, [base[0] - 100 * MIB, QUOTA], base, QUOTA, CONTEXT]


def test_info_with_null_answers_as_the_driver_does(step: Step, native: Step) -> None:
    code = """
    start()
    lib, value = raw(), ctypes.c_size_t(7)
    answer = [lib.cuMemGetInfo_v2(None, None), lib.cuMemGetInfo_v2(None, ctypes.byref(value)),
              lib.cuMemGetInfo_v2(ctypes.byref(value), None)]
    """
    assert step.run(code) == native.run(code)


def test_info_without_a_context_answers_as_the_driver_does(step: Step, native: Step) -> None:
    code = "before = code(d.cuMemGetInfo()); d.cuInit(0); answer = [before, code(d.cuMemGetInfo())]"
    assert step.run(code) == native.run(code)


def test_pointer_attributes_are_the_drivers(step: Step, native: Step) -> None:
    code = """
    start()
    A = d.CUpointer_attribute
    asked = [A.CU_POINTER_ATTRIBUTE_IS_MANAGED, A.CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
             A.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL]
    pointers = [ok(d.cuMemAlloc(MIB)),
                ok(d.cuMemAllocManaged(MIB, d.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL))]
    answer = [[str(d.cuPointerGetAttribute(a, p)) for a in asked] for p in pointers]
    """
    assert step.run(code) == native.run(code)


# --- the wall -------------------------------------------------------------------------------------


def test_the_last_byte_is_given_and_a_granule_more_refused_and_the_program_goes_on(
    step: Step,
) -> None:
    code = """
    start()
    free, total = info()
    ok(d.cuMemAlloc(free - 512))
    more = code(d.cuMemAlloc(1024))
    last = ok(d.cuMemAlloc(512))
    answer = [more, code(d.cuMemAlloc(1)), info(), held()]
    ok(d.cuMemFree(last))
    answer += [code(d.cuMemAlloc(512))]
    """
    assert step.run(code) == [2, 2, [0, QUOTA], QUOTA, 0]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Step]:
    """Contexts take 1 MiB, and the two vGPUs little more than a few objects of each size."""
    path = tmp_path_factory.mktemp("machines") / "small.machine"
    path.write_text('machine=small context=1MiB\ngpu=0-1 name="Small" memory=2GiB sms=16\n')
    with Step(("9MiB", "203MiB"), machine=str(path)) as step:
        yield step


@pytest.mark.parametrize("size", [4 * KIB, 2 * MIB, 64 * MIB])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_admitted_up_to_the_quota_and_given_back_to_the_byte(
    small: Step, kind: str, size: int
) -> None:
    gpu, quota = (0, 9 * MIB) if size == 4 * KIB else (1, 203 * MIB)
    code = f"""
    visible = os.environ["CUDA_VISIBLE_DEVICES"].split(",")[{gpu}]
    def run(count):
        program = subprocess.Popen([PROGRAMS + "/hold", {kind!r}, "{size}", str(count)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {{"CUDA_VISIBLE_DEVICES": visible}})
        said = []
        for _ in range(2):
            taken, used = map(int, program.stdout.readline().split())
            said.append([taken, used, held({gpu})])
            print(file=program.stdin, flush=True)
        assert program.wait() == 0
        return said
    one = run(1)
    answer = [one[0][2] - one[1][2], run(100000), stat()["gpus"][{gpu}]["peak"]]
    """
    each, (full, after), peak = small.run(code)
    taken, used, held = full
    assert taken > 0 and each > 0
    assert held <= quota < held + each
    assert used == held  # what the program is told is what the card holds
    assert after[1:] == [MIB, MIB]  # its context
    assert peak <= quota  # not for an instant


def test_pitched_memory_is_charged_with_its_pitch(step: Step) -> None:
    code = """
    start()
    base, answer = held(), []
    for _ in range(4):  # 512 MiB each, of rows of one byte
        result = d.cuMemAllocPitch(1, MIB, 4)
        answer.append(code(result))
        if answer[-1] == 0:
            assert used() == held() == base + int(result[2]) * MIB
    """
    assert step.run(code) == [0, 2, 2, 2]


def test_no_size_is_too_large_to_be_refused(step: Step, native: Step) -> None:
    code = """
    start()
    top = (1 << 64) - 1
    before = info()
    answer = [code(d.cuMemAlloc(size)) for size in (top, top - 4096, top - 511, 1 << 63)]
    answer += [code(d.cuMemAllocPitch(top, 2, 4)), code(d.cuMemAllocPitch(1 << 40, 1 << 40, 4)),
               code(d.cuMemAllocManaged(top, 1)), code(d.cuMemAllocAsync(top, 0))]
    answer += [code(d.cuMemAlloc(0)), code(d.cuMemAllocPitch(0, 1, 4))]
    assert info() == before
    """
    shim = step.run(code)
    assert shim[:8] == [2] * 8
    assert shim[8:] == native.run(code)[8:]


# --- pools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", ["default", "explicit"])
def test_allocation_from_a_pool_is_held_to_the_quota(step: Step, pool: str) -> None:
    code = f"""
    start()
    pool = ok(d.cuDeviceGetDefaultMemPool(0)) if {pool!r} == "default" else pool_of()
    answer = [code(d.cuMemAllocFromPoolAsync(8 * GIB, pool, 0))]
    taken = fill(lambda size: d.cuMemAllocFromPoolAsync(size, pool, 0), 64 * MIB)
    answer += [len(taken), held() <= GIB, used() == held()]
    for pointer in taken:
        ok(d.cuMemFreeAsync(pointer, 0))
    ok(d.cuStreamSynchronize(0))
    ok(d.cuMemPoolTrimTo(pool, 0))
    answer += [used(), held()]
    """
    assert step.run(code) == [2, 12, True, True, CONTEXT, CONTEXT]


def test_a_refused_async_allocation_is_out_of_memory_and_no_later_one_is_refused_falsely(
    step: Step,
) -> None:
    code = """
    start()
    base = used()
    answer = [code(d.cuMemAllocAsync(4 * GIB, 0))]
    for _ in range(200):
        pointer = ok(d.cuMemAllocAsync(50 * MIB, 0))
        ok(d.cuMemFreeAsync(pointer, 0))
        ok(d.cuStreamSynchronize(0))
    ok(d.cuMemPoolTrimTo(ok(d.cuDeviceGetDefaultMemPool(0)), 0))
    answer += [used() - base, held() - base]
    """
    assert step.run(code) == [2, 0, 0]


def test_memory_that_a_stream_frees_is_used_again_without_a_synchronisation(step: Step) -> None:
    code = """
    start()
    for _ in range(20):  # 700 of the 768 MiB: a second one at a time would not fit
        pointer = ok(d.cuMemAllocAsync(700 * MIB, 0))
        ok(d.cuMemFreeAsync(pointer, 0))
    answer = held() <= GIB
    """
    assert step.run(code)


def test_what_a_pool_only_keeps_makes_room_for_others(step: Step) -> None:
    code = """
    start()
    pool = ok(d.cuDeviceGetDefaultMemPool(0))
    attribute = d.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    ok(d.cuMemPoolSetAttribute(pool, attribute, d.cuuint64_t(1 << 40)))
    pointer = ok(d.cuMemAllocAsync(700 * MIB, 0))
    ok(d.cuMemFreeAsync(pointer, 0))
    ok(d.cuStreamSynchronize(0))
    answer = [used() == held(), used() > 700 * MIB, code(d.cuMemAlloc(700 * MIB)),
              used() == held() <= GIB]
    """
    assert step.run(code) == [True, True, 0, True]


def test_frees_may_cross_the_two_interfaces(step: Step) -> None:
    code = """
    start()
    base = used()
    one = ok(d.cuMemAllocAsync(50 * MIB, 0))
    ok(d.cuStreamSynchronize(0))
    answer = [code(d.cuMemFree(one))]
    two = ok(d.cuMemAlloc(50 * MIB))
    answer += [code(d.cuMemFreeAsync(two, 0))]
    ok(d.cuStreamSynchronize(0))
    ok(d.cuMemPoolTrimTo(ok(d.cuDeviceGetDefaultMemPool(0)), 0))
    answer += [used() - base, held() - base]
    """
    assert step.run(code) == [0, 0, 0, 0]


def test_a_pool_on_the_host_is_not_charged(step: Step, native: Step) -> None:
    code = """
    start()
    before = used()
    pool = pool_of(0, d.CUmemLocationType.CU_MEM_LOCATION_TYPE_HOST)
    answer = [code(d.cuMemAllocFromPoolAsync(2 * GIB, pool, 0)), used() - before]
    """
    assert step.run(code) == native.run(code) == [0, 0]


# --- virtual memory management --------------------------------------------------------------------


def test_handles_are_held_to_the_quota(step: Step) -> None:
    code = """
    start()
    taken = fill(lambda size: vmm(size), 64 * MIB)
    answer = [len(taken), held() <= GIB, used() == held()]
    for handle in taken:
        ok(d.cuMemRelease(handle))
    answer += [used(), held()]
    """
    assert step.run(code) == [12, True, True, CONTEXT, CONTEXT]


def test_memory_stays_charged_until_the_last_mapping_is_gone(step: Step) -> None:
    code = """
    start()
    base, size = used(), 400 * MIB
    handle = ok(vmm(size))
    at = ok(d.cuMemAddressReserve(2 * size, 0, 0, 0))
    ok(d.cuMemMap(at, size, 0, handle, 0))
    ok(d.cuMemMap(int(at) + size, size, 0, handle, 0))
    ok(d.cuMemRelease(handle))
    answer = [used() - base]
    ok(d.cuMemUnmap(at, size))
    answer += [used() - base]
    ok(d.cuMemUnmap(int(at) + size, size))
    answer += [used() - base, held() - base]
    """
    assert step.run(code) == [400 * MIB, 400 * MIB, 0, 0]


def test_several_mappings_are_unmapped_in_one_call(step: Step) -> None:
    code = """
    start()
    base, size = used(), 64 * MIB
    at = ok(d.cuMemAddressReserve(3 * size, 0, 0, 0))
    for i in range(3):
        handle = ok(vmm(size))
        ok(d.cuMemMap(int(at) + i * size, size, 0, handle, 0))
        ok(d.cuMemRelease(handle))
    answer = [used() - base]
    ok(d.cuMemUnmap(at, 3 * size))
    answer += [used() - base, held() - base]
    """
    assert step.run(code) == [192 * MIB, 0, 0]


def test_a_retained_handle_is_released_twice_and_uncharged_once(step: Step) -> None:
    code = """
    start()
    base, size = used(), 400 * MIB
    handle = ok(vmm(size))
    at = ok(d.cuMemAddressReserve(size, 0, 0, 0))
    ok(d.cuMemMap(at, size, 0, handle, 0))
    again = ok(d.cuMemRetainAllocationHandle(int(at) + 4096))
    ok(d.cuMemUnmap(at, size))
    answer = [used() - base]
    ok(d.cuMemRelease(handle))
    answer += [used() - base]
    ok(d.cuMemRelease(again))
    answer += [used() - base, held() - base]
    """
    assert step.run(code) == [400 * MIB, 400 * MIB, 0, 0]


def test_memory_on_the_host_is_not_charged_and_answers_as_the_driver_does(
    step: Step, native: Step
) -> None:
    code = """
    def tries():
        T = d.CUmemLocationType
        for kind in (T.CU_MEM_LOCATION_TYPE_HOST, T.CU_MEM_LOCATION_TYPE_HOST_NUMA,
                     T.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT):
            for node in (-1, 0, 8):
                yield code(vmm(2 * MIB, node, kind))
    ok(d.cuInit(0))
    without = list(tries())
    start()
    before = used()
    answer = [without, list(tries()), used() - before]
    """
    assert step.run(code) == native.run(code)


# --- arrays ---------------------------------------------------------------------------------------

ARRAYS = """
def array(width, height=0, depth=0, flags=0, channels=1):
    a = d.CUDA_ARRAY3D_DESCRIPTOR()
    a.Width, a.Height, a.Depth, a.Flags, a.NumChannels = width, height, depth, flags, channels
    a.Format = d.CUarray_format.CU_AD_FORMAT_FLOAT
    return a
LAYERED, SURFACE, CUBEMAP, SPARSE, DEFERRED = 1, 2, 4, 0x40, 0x80
"""


def test_arrays_of_every_shape_are_charged_with_what_they_take(step: Step) -> None:
    code = """
    start()
    base = used()
    shapes = [array(1000), array(1000, 1000), array(100, 100, 100), array(64, 64, 6, CUBEMAP),
              array(64, 64, 12, CUBEMAP | LAYERED), array(512, 512, 8, LAYERED),
              array(300, 300, 0, SURFACE, 4)]
    made, right = [], []
    for shape in shapes:
        made.append(ok(d.cuArray3DCreate(shape)))
        right.append(used() == held() > base)
    for one in made:
        ok(d.cuArrayDestroy(one))
    answer = [all(right), len(right), used() - base, held() - base]
    """
    assert step.run(ARRAYS + dedent(code)) == [True, 7, 0, 0]


def test_four_arrays_of_512_mib_do_not_fit_into_a_gibibyte(step: Step) -> None:
    code = """
    start()
    flat = [code(d.cuArray3DCreate(array(16384, 8192))) for _ in range(4)]
    answer = [flat, held() <= GIB]
    """
    assert step.run(ARRAYS + dedent(code)) == [[0, 2, 2, 2], True]


def test_mipmapped_arrays_are_charged_with_all_their_levels(step: Step) -> None:
    code = """
    start()
    base = used()
    made = [d.cuMipmappedArrayCreate(array(8192, 8192), 10) for _ in range(4)]
    answer = [[code(one) for one in made], used() == held() > base + 256 * MIB]
    for one in made:
        if code(one) == 0:
            ok(d.cuMipmappedArrayDestroy(one[1]))
    answer += [used() - base]
    """
    assert step.run(ARRAYS + dedent(code)) == [[0, 0, 2, 2], True, 0]


def test_arrays_without_memory_of_their_own_are_not_charged(step: Step) -> None:
    code = """
    start()
    base = used()
    ok(d.cuArray3DCreate(array(16384, 16384, 0, DEFERRED)))
    answer = [used() - base, held() - base]
    """
    assert step.run(ARRAYS + dedent(code)) == [0, 0]


# --- graphs ---------------------------------------------------------------------------------------

CAPTURE = """
def capture(size, free=True):
    stream = ok(d.cuStreamCreate(0))
    ok(d.cuStreamBeginCapture(stream, d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
    pointer = ok(d.cuMemAllocAsync(size, stream))
    if free:
        ok(d.cuMemFreeAsync(pointer, stream))
    return stream, ok(d.cuStreamEndCapture(stream))
"""


def test_memory_of_a_captured_graph_is_charged_while_the_graph_pool_has_it(step: Step) -> None:
    code = """
    start()
    base = used()
    stream, graph = capture(100 * MIB)
    exe = ok(d.cuGraphInstantiate(graph, 0))
    for _ in range(3):
        ok(d.cuGraphLaunch(exe, stream))
    ok(d.cuStreamSynchronize(stream))
    answer = [used() == held() >= base + 100 * MIB]
    ok(d.cuGraphExecDestroy(exe))
    ok(d.cuDeviceGraphMemTrim(0))
    answer += [used() - base, held() - base]
    """
    assert step.run(CAPTURE + dedent(code)) == [True, 0, 0]


def test_a_graph_that_allocates_more_than_is_left_is_refused(step: Step) -> None:
    code = """
    start()
    base = used()
    stream, graph = capture(900 * MIB)
    made = d.cuGraphInstantiate(graph, 0)
    answer = [code(made) or code(d.cuGraphLaunch(made[1], stream)), used() - base, held() - base]
    """
    assert step.run(CAPTURE + dedent(code)) == [2, 0, 0]


# --- contexts and code ----------------------------------------------------------------------------


def test_the_primary_context_is_charged_once_however_often_it_is_retained(step: Step) -> None:
    code = """
    start()
    ok(d.cuDevicePrimaryCtxRetain(0))
    ok(d.cuDevicePrimaryCtxRelease(0))
    answer = [used()]
    ok(d.cuDevicePrimaryCtxRelease(0))
    answer += [held()]
    start()
    ok(d.cuMemAlloc(10 * MIB))
    ok(d.cuDevicePrimaryCtxReset(0))
    answer += [held()]
    start()
    answer += [used(), held()]
    """
    assert step.run(code) == [CONTEXT, 0, 0, CONTEXT, CONTEXT]


def test_a_destroyed_context_gives_back_all_that_was_in_it(step: Step) -> None:
    code = """
    start()
    base = used()
    context = ok(d.cuCtxCreate(None, 0, 0))
    answer = [used() - base]
    ok(d.cuMemAlloc(20 * MIB))
    ok(d.cuArray3DCreate(array(1024, 1024)))
    ok(d.cuCtxDestroy(context))
    start()
    answer += [used() - base, held() - base]
    """
    assert step.run(ARRAYS + dedent(code)) == [CONTEXT, 0, 0]


def test_contexts_of_every_constructor_are_charged(step: Step) -> None:
    code = """
    primary = start()
    base, lib, right = used(), raw(), []
    for name, arguments in (("cuCtxCreate", ()), ("cuCtxCreate_v2", ()),
                            ("cuCtxCreate_v3", (None, 0)), ("cuCtxCreate_v4", (None,))):
        context = ctypes.c_void_p()
        assert getattr(lib, name)(ctypes.byref(context), *arguments, 0, 0) == 0, name
        right.append(used() == held() == base + 256 * MIB)
        assert lib.cuCtxDestroy_v2(context) == 0
        ok(d.cuCtxSetCurrent(primary))
        right.append(used() == held() == base)
    answer = right
    """
    assert step.run(code) == [True] * 8


def test_a_context_that_does_not_fit_is_refused(step: Step) -> None:
    code = """
    start()
    ok(d.cuMemAlloc(700 * MIB))
    before = used()
    answer = [code(d.cuCtxCreate(None, 0, 0)), used() - before, used() == held()]
    """
    assert step.run(code) == [2, 0, True]


def test_modules_are_charged_and_refused_like_memory(step: Step) -> None:
    code = r"""
    start()
    base = used()
    image = b"x" * (50 * MIB) + b"\0"
    module = ok(d.cuModuleLoadData(image))
    answer = [used() == held() >= base + 50 * MIB]
    ok(d.cuModuleUnload(module))
    answer += [used() - base, held() - base]
    ok(d.cuMemAlloc(info()[0] - 20 * MIB))
    answer += [code(d.cuModuleLoadData(image)), held() <= GIB]
    """
    assert step.run(code) == [True, 0, 0, 2, True]


def test_libraries_are_charged_and_given_back(step: Step) -> None:
    code = r"""
    start()
    base = used()
    image = b"x" * (20 * MIB) + b"\0"
    library = ok(d.cuLibraryLoadData(image, [], [], 0, [], [], 0))
    ok(d.cuKernelGetFunction(ok(d.cuLibraryGetKernel(library, b"empty"))))
    answer = [used() == held()]
    ok(d.cuLibraryUnload(library))
    answer += [used() - base, held() - base]
    """
    assert step.run(code) == [True, 0, 0]


# --- failures of the driver -----------------------------------------------------------------------

FAILING = (
    ("cuMemAlloc_v2", "d.cuMemAlloc(10 * MIB)"),
    ("cuMemAllocPitch_v2", "d.cuMemAllocPitch(1000, 1000, 4)"),
    ("cuMemAllocManaged", "d.cuMemAllocManaged(10 * MIB, 1)"),
    ("cuMemAllocAsync", "d.cuMemAllocAsync(10 * MIB, 0)"),
    ("cuMemCreate", "vmm(10 * MIB)"),
    ("cuArray3DCreate_v2", "d.cuArray3DCreate(array(1000, 1000))"),
    ("cuMipmappedArrayCreate", "d.cuMipmappedArrayCreate(array(1000, 1000), 3)"),
    ("cuModuleLoadData", "d.cuModuleLoadData(b'x' * 2000000 + bytes(1))"),
    ("cuCtxCreate_v4", "d.cuCtxCreate(None, 0, 0)"),
)


@pytest.mark.parametrize("error", [1, 2, 999])
@pytest.mark.parametrize(("name", "call"), FAILING, ids=[name for name, _ in FAILING])
def test_an_error_of_the_driver_is_passed_on_and_leaves_no_charge(
    step: Step, name: str, call: str, error: int
) -> None:
    code = f"""
    start()
    before = info()
    faults("fail {name} with {error} garbage")
    answer = [code({call}), info() == before]
    """
    assert step.run(ARRAYS + dedent(code)) == [error, True]


def test_frees_of_what_is_not_allocated_answer_as_the_driver_does(step: Step, native: Step) -> None:
    code = """
    start()
    pointer = int(ok(d.cuMemAlloc(MIB)))
    before = info()
    answer = [code(d.cuMemFree(0)), code(d.cuMemFree(0x1234)), code(d.cuMemFree(pointer + 512)),
              info() == before, code(d.cuMemFree(pointer)), code(d.cuMemFree(pointer))]
    """
    assert step.run(code) == native.run(code)


def test_a_free_that_fails_leaves_the_charge(step: Step) -> None:
    code = """
    start()
    pointer = ok(d.cuMemAlloc(100 * MIB))
    before = info()
    faults("fail cuMemFree_v2 at 1 with 719")
    answer = [code(d.cuMemFree(pointer)), info() == before, code(d.cuMemFree(pointer)), used()]
    """
    assert step.run(code) == [719, True, 0, CONTEXT]
