"""Memory of the simulated libcuda. How much of it is counted: test_accounting.py."""

from __future__ import annotations

from tests.gpusim.driver import OTHER, driver


def test_copies_and_memsets_really_move_bytes() -> None:
    code = """
    context()
    a, b = ok(cu.cuMemAlloc(MIB)), ok(cu.cuMemAlloc(MIB))
    host = np.arange(MIB // 4, dtype=np.uint32)
    ok(cu.cuMemcpyHtoD(a, host.ctypes.data, MIB))
    ok(cu.cuMemcpyDtoD(b, a, MIB))
    answer = [bool((download(b, MIB // 4) == host).all())]
    ok(cu.cuMemsetD8(b, 7, 100)); ok(cu.cuMemsetD16(int(b) + 100, 0x0102, 50))
    ok(cu.cuMemsetD32(int(b) + 200, 0xdeadbeef, 10))
    raw = download(b, 240, np.uint8)
    answer += [set(raw[:100].tolist()) == {7}, raw[100:102].tolist(), raw[200:204].tolist()]
    ok(cu.cuMemsetD2D8(a, 256, 9, 3, 4))
    grid = download(a, 1024, np.uint8).reshape(4, 256)
    answer += [bool((grid[:, :3] == 9).all()), bool((grid[1:, 3:8] == 9).any())]
    ok(cu.cuMemcpy(b, host.ctypes.data + 4, 400)); answer.append(int(download(b, 1)[0]))
    """
    assert driver(code) == [True, True, [2, 1], [0xEF, 0xBE, 0xAD, 0xDE], True, False, 1]


def test_boxes_are_copied_between_every_two_kinds_of_memory() -> None:
    code = """
    context()
    T = cu.CUmemorytype
    width, height, depth = 16, 5, 3
    host = np.arange(32 * 8 * 4, dtype=np.uint8).reshape(4, 8, 32)
    back = np.zeros_like(host)
    desc = cu.CUDA_ARRAY3D_DESCRIPTOR()
    desc.Width, desc.Height, desc.Depth = 32, 8, 4
    desc.Format, desc.NumChannels = cu.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT8, 1
    array = ok(cu.cuArray3DCreate(desc))
    device = ok(cu.cuMemAlloc(32 * 8 * 4))

    def side(copy, which, kind, place):
        setattr(copy, which + "MemoryType", kind)
        name = {T.CU_MEMORYTYPE_HOST: "Host", T.CU_MEMORYTYPE_DEVICE: "Device",
            T.CU_MEMORYTYPE_ARRAY: "Array"}[kind]
        setattr(copy, which + name, place)
        setattr(copy, which + "Pitch", 32); setattr(copy, which + "Height", 8)

    def copy(to, source, offset):
        c = cu.CUDA_MEMCPY3D()
        side(c, "src", *source); side(c, "dst", *to)
        c.srcXInBytes = c.dstXInBytes = offset
        c.srcY = c.dstY = c.srcZ = c.dstZ = 1
        c.WidthInBytes, c.Height, c.Depth = width, height, depth
        return rc(cu.cuMemcpy3D(c))

    H, D, A = (T.CU_MEMORYTYPE_HOST, host.ctypes.data), (T.CU_MEMORYTYPE_DEVICE,
        device), (T.CU_MEMORYTYPE_ARRAY, array)
    B = (T.CU_MEMORYTYPE_HOST, back.ctypes.data)
    ok(cu.cuMemsetD8(device, 0, 32 * 8 * 4))
    answer = [copy(D, H, 4), copy(A, D, 4), copy(B, A, 4)]
    box = (slice(1, 4), slice(1, 6), slice(4, 20))
    answer += [bool((back[box] == host[box]).all()), int(back.sum()) == int(host[box].sum())]
    answer.append(copy(B, A, 20))  # past the end of a row
    """
    assert driver(code) == [0, 0, 0, True, True, 1]


def test_linear_copies_reach_arrays_by_byte_offset() -> None:
    code = """
    context()
    desc = cu.CUDA_ARRAY_DESCRIPTOR()
    desc.Width, desc.Height, desc.NumChannels = 64, 0, 1
    desc.Format = cu.CUarray_format.CU_AD_FORMAT_FLOAT
    a, b = ok(cu.cuArrayCreate(desc)), ok(cu.cuArrayCreate(desc))
    host, back = np.arange(64, dtype=np.float32), np.zeros(32, dtype=np.float32)
    ok(cu.cuMemcpyHtoA(a, 0, host.ctypes.data, 256))
    ok(cu.cuMemcpyAtoA(b, 128, a, 0, 128))
    ok(cu.cuMemcpyAtoH(back.ctypes.data, b, 128, 128))
    answer = [back.tolist() == host[:32].tolist(),
        rc(cu.cuMemcpyAtoH(back.ctypes.data, b, 200, 128)),
              ok(cu.cuArrayGetDescriptor(b)).Width, rc(cu.cuArrayDestroy(a))]
    """
    assert driver(code) == [True, 1, 64, 0]


def test_what_is_wrong_is_refused_as_invalid() -> None:
    code = """
    context()
    p = ok(cu.cuMemAlloc(1000))
    h = np.zeros(4096, dtype=np.uint8).ctypes.data
    answer = [
        rc(cu.cuMemAlloc(0)), rc(cu.cuMemAlloc(2**64 - 1)), rc(cu.cuMemAlloc(2**64 - 4096)),
        rc(cu.cuMemAllocPitch(2**40, 2**40, 4)), rc(cu.cuMemAllocPitch(1, 1, 3)),
        rc(cu.cuMemFree(0)), rc(cu.cuMemFree(0x1234)), rc(cu.cuMemFree(int(p) + 8)),
        rc(cu.cuMemcpyHtoD(p, h, 4096)), rc(cu.cuMemcpyDtoH(h, 0x1234, 4)), rc(cu.cuMemsetD8(p, 0,
            4096)),
        rc(cu.cuMemcpyHtoD(p, h,
            0)), rc(cu.cuMemFree(p)), rc(cu.cuMemFree(p)), rc(cu.cuMemcpyHtoD(p, h, 4)),
        rc(cu.cuMemGetAddressRange(0x1234)), rc(cu.cuMemFreeHost(0x1234)),
    ]
    """
    assert driver(code) == [1, 2, 2, 2, 1, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 500, 1]


def test_the_card_is_full_at_its_last_byte_and_then_goes_on(small: str) -> None:
    code = """
    context()
    free, total = ok(cu.cuMemGetInfo())
    p = ok(cu.cuMemAlloc(free))
    answer = [total, ok(cu.cuMemGetInfo())[0], rc(cu.cuMemAlloc(1)), rc(cu.cuMemFree(p)),
              ok(cu.cuMemGetInfo())[0] == free, rc(cu.cuMemAlloc(free + 1)), rc(cu.cuMemAlloc(
                  free))]
    """
    assert driver(code, machine=small) == [2 << 30, 0, 2, 0, True, 2, 0]


def test_contexts_are_charged_once_while_they_live(small: str) -> None:
    code = """
    ok(cu.cuInit(0))
    def bytes_used(): return [g["used"] >> 20 for g in stat()["gpus"]]
    answer = [bytes_used()]
    ok(cu.cuDevicePrimaryCtxRetain(0))
    ok(cu.cuDevicePrimaryCtxRetain(0))
    answer.append(bytes_used())
    ok(cu.cuDevicePrimaryCtxRetain(1)); answer.append(bytes_used())
    ok(cu.cuDevicePrimaryCtxRelease(0)); answer.append(bytes_used())
    ok(cu.cuDevicePrimaryCtxRelease(0)); answer.append(bytes_used())
    answer.append(rc(cu.cuDevicePrimaryCtxRelease(0)))
    primary = ok(cu.cuDevicePrimaryCtxRetain(1))
    ok(cu.cuCtxSetCurrent(primary))
    ok(cu.cuMemAlloc(MIB))
    answer.append([bytes_used(), ok(cu.cuDevicePrimaryCtxGetState(1))[1]])
    ok(cu.cuDevicePrimaryCtxReset(1))
    answer.append([bytes_used(), ok(cu.cuDevicePrimaryCtxGetState(1))[1]])
    answer.append(rc(cu.cuMemAlloc(1)))
    ctx = ok(cu.cuCtxCreate(None, 0, 0)); ok(cu.cuMemAlloc(MIB)); answer.append(bytes_used())
    ok(cu.cuCtxDestroy(ctx))
    answer.append([bytes_used(), rc(cu.cuCtxDestroy(ctx)), rc(cu.cuCtxSetCurrent(ctx))])
    """
    assert driver(code, machine=small) == [
        [0, 0],
        [1, 0],
        [1, 1],
        [1, 1],
        [0, 1],
        201,
        [[0, 2], 1],
        [[0, 0], 0],
        709,
        [2, 0],
        [[0, 0], 201, 201],
    ]


def test_the_stack_of_contexts_is_the_threads_own() -> None:
    code = """
    ok(cu.cuInit(0))
    a, b = ok(cu.cuCtxCreate(None, 0, 0)), ok(cu.cuCtxCreate(None, 0, 1))
    current = lambda: int(ok(cu.cuCtxGetCurrent()))
    answer = [current() == int(b), int(ok(cu.cuCtxGetDevice()))]
    ok(cu.cuCtxPopCurrent()); answer.append(current() == int(a))
    ok(cu.cuCtxPushCurrent(b)); answer.append(current() == int(b))
    elsewhere = []
    t = threading.Thread(target=lambda: elsewhere.append((current(), rc(cu.cuMemAlloc(1)))))
    t.start(); t.join()
    answer += [list(elsewhere[0]), rc(cu.cuCtxSetCurrent(0)), current() == int(a)]
    """
    assert driver(code) == [True, 1, True, True, [0, 201], 0, True]


def test_modules_cost_their_own_size_and_their_globals() -> None:
    code = """
    context()
    base = used()
    text = b".version 8.0\\n.visible .global .align 4 .b8 table[5000000];\\n.global .f32 one;\\n"
    text += b" " * (3 * MIB - len(text) - 1)
    module = ok(cu.cuModuleLoadData(text))
    answer = [used() - base - 3 * MIB]
    pointer, size = ok(cu.cuModuleGetGlobal(module, b"table"))
    ok(cu.cuMemsetD8(pointer, 1, size))
    answer += [size, ok(cu.cuModuleGetGlobal(module, b"one"))[1],
        rc(cu.cuModuleGetGlobal(module, b"two"))]
    answer += [rc(cu.cuModuleGetFunction(module, b"nothing")), rc(cu.cuMemFree(pointer))]
    ok(cu.cuModuleUnload(module)); answer.append(used() - base)
    """
    assert driver(code) == [5000192 + 512, 5000000, 4, 500, 500, 1, 0]


def test_a_library_costs_nothing_until_used_in_a_context() -> None:
    code = """
    context()
    base = used()
    library = ok(cu.cuLibraryLoadData(b"x" * (2 * MIB - 1), [], [], 0, [], [], 0))
    answer = [used() - base]
    kernel = ok(cu.cuLibraryGetKernel(library, b"spin"))
    answer += [used() - base, rc(cu.cuLibraryGetKernel(library, b"nothing"))]
    argument = np.array([1000], dtype=np.uint64)
    pointers = np.array([argument.ctypes.data], dtype=np.uint64)
    answer.append(rc(cu.cuLaunchKernel(cu.CUfunction(int(kernel)), 1, 1, 1, 1, 1, 1, 0, 0,
        pointers.ctypes.data, 0)))
    answer.append(used() - base)
    function = ok(cu.cuKernelGetFunction(kernel))
    answer += [launch(function, ns(1000)), used() - base]
    ok(cu.cuLibraryUnload(library)); answer.append(used() - base)
    """
    assert driver(code) == [0, 0, 500, 0, 2 << 20, 0, 2 << 20, 0]


def test_a_pool_keeps_freed_memory_up_to_its_threshold_until_the_next_synchronisation() -> None:
    code = """
    context()
    A = cu.CUmemPool_attribute
    pool = ok(cu.cuDeviceGetDefaultMemPool(0))
    get = lambda name: int(ok(cu.cuMemPoolGetAttribute(pool,
        getattr(A, "CU_MEMPOOL_ATTR_" + name))))
    s = ok(cu.cuStreamCreate(0))
    base = used()
    p = ok(cu.cuMemAllocAsync(3 * MIB, s))
    answer = [(used() - base) // MIB, get("USED_MEM_CURRENT") // MIB]
    ok(cu.cuMemFreeAsync(p, s)); answer += [(used() - base) // MIB, get("USED_MEM_CURRENT")]
    ok(cu.cuStreamSynchronize(s)); answer += [used() - base, get("RESERVED_MEM_HIGH") // MIB]
    ok(cu.cuMemPoolSetAttribute(pool, A.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, cu.cuuint64_t(6 * MIB)))
    p = ok(cu.cuMemAllocAsync(10 * MIB, s))
    ok(cu.cuMemFreeAsync(p, s))
    ok(cu.cuStreamSynchronize(s))
    answer += [(used() - base) // MIB]
    q = ok(cu.cuMemAllocAsync(5 * MIB, s)); answer += [(used() - base) // MIB]  # reused
    ok(cu.cuMemFree(q)); ok(cu.cuMemPoolTrimTo(pool, 2 * MIB)); answer += [(used() - base) // MIB]
    linear = ok(cu.cuMemAlloc(MIB))
    ok(cu.cuMemFreeAsync(linear, s))
    ok(cu.cuMemPoolTrimTo(pool, 0))
    answer += [used() - base, rc(cu.cuMemFreeAsync(0x1234, s))]
    """
    assert driver(code) == [4, 3, 4, 0, 0, 4, 6, 6, 2, 0, 1]


def test_explicit_pools_live_until_their_last_allocation() -> None:
    code = """
    context()
    props = cu.CUmemPoolProps()
    props.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    props.location = device_location()
    props.maxSize = 8 * MIB
    pool = ok(cu.cuMemPoolCreate(props))
    base = used()
    p = ok(cu.cuMemAllocFromPoolAsync(6 * MIB, pool, 0))
    answer = [rc(cu.cuMemAllocFromPoolAsync(3 * MIB, pool, 0)), rc(cu.cuMemPoolDestroy(pool)),
        (used() - base) // MIB]
    ok(cu.cuMemsetD8(p, 1, 6 * MIB)); ok(cu.cuMemFreeAsync(p, 0)); answer.append(used() - base)
    answer.append(rc(cu.cuMemPoolDestroy(ok(cu.cuDeviceGetDefaultMemPool(0)))))
    """
    assert driver(code) == [2, 0, 6, 0, 800]


VMM = """
context()
prop = cu.CUmemAllocationProp()
prop.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
prop.location = device_location()
access = cu.CUmemAccessDesc()
access.location, access.flags = device_location(
    ), cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
base = used()
def more(): return (used() - base) // MIB
"""


def test_a_vmm_handle_is_charged_until_the_last_reference_and_mapping_are_gone() -> None:
    code = f"""{VMM}
size = 4 * MIB
handle = ok(cu.cuMemCreate(size, prop, 0))
va = ok(cu.cuMemAddressReserve(2 * size, 0, 0, 0))
answer = [more(), rc(cu.cuMemsetD8(va, 1, 16))]
ok(cu.cuMemMap(va, size, 0, handle, 0)); answer.append(rc(cu.cuMemsetD8(va, 1, 16)))
ok(cu.cuMemSetAccess(va, size, [access], 1)); answer.append(rc(cu.cuMemsetD8(va, 5, size)))
ok(cu.cuMemRelease(handle)); answer += [more(), rc(cu.cuMemRelease(handle))]
again = ok(cu.cuMemRetainAllocationHandle(int(va) + 100))
ok(cu.cuMemMap(int(va) + size, size, 0, again, 0))
ok(cu.cuMemSetAccess(int(va) + size, size, [access], 1))
answer += [int(download(int(va) + size, 1, np.uint8)[0]), rc(cu.cuMemsetD8(va, 6, 2 * size))]
ok(cu.cuMemUnmap(va, 2 * size)); answer += [more(), rc(cu.cuMemAddressFree(va, size))]
ok(cu.cuMemRelease(again)); answer += [more(), rc(cu.cuMemAddressFree(va, 2 * size))]
"""
    assert driver(code) == [4, 1, 1, 0, 4, 1, 5, 0, 4, 1, 0, 0]


def test_a_handle_is_charged_where_its_location_is() -> None:
    code = f"""{VMM}
where = lambda: [g["processes"][0]["kinds"].get("vmm",
    0) // MIB if g["processes"] else 0 for g in stat()["gpus"]]
L = cu.CUmemLocationType
answer = []
for kind, number in [(L.CU_MEM_LOCATION_TYPE_DEVICE, 1), (L.CU_MEM_LOCATION_TYPE_HOST_NUMA, 0),
                     (L.CU_MEM_LOCATION_TYPE_HOST, 0), (L.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT,
                         0),
                     (L.CU_MEM_LOCATION_TYPE_DEVICE, 8), (L.CU_MEM_LOCATION_TYPE_HOST_NUMA, -1)]:
    location = cu.CUmemLocation()
    location.type, location.id = kind, number
    prop.location = location
    r = cu.cuMemCreate(2 * MIB, prop, 0)
    answer.append([rc(r), where()])
    if rc(r) == 0: ok(cu.cuMemRelease(r[1]))
"""
    none = [0, 0, 0, 0]
    assert driver(code) == [
        [0, [0, 2, 0, 0]],
        [0, none],
        [0, none],
        [0, none],
        [101, none],
        [1, none],
    ]


def test_vmm_sizes_and_mappings_are_checked() -> None:
    code = f"""{VMM}
handle = ok(cu.cuMemCreate(2 * MIB, prop, 0))
va = ok(cu.cuMemAddressReserve(4 * MIB, 0, 0, 0))
answer = [
    ok(cu.cuMemGetAllocationGranularity(prop,
        cu.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM)),
    rc(cu.cuMemCreate(4096, prop, 0)), rc(cu.cuMemMap(va, 4 * MIB, 0, handle, 0)),
    rc(cu.cuMemMap(0x200000, 2 * MIB, 0, handle, 0)), rc(cu.cuMemMap(va, 2 * MIB, 0, handle, 0)),
    rc(cu.cuMemMap(va, 2 * MIB, 0, handle, 0)), rc(cu.cuMemUnmap(va, MIB)), rc(cu.cuMemUnmap(va,
        4 * MIB)),
    rc(cu.cuMemUnmap(va, 2 * MIB)), rc(cu.cuMemRelease(12345)),
]
"""
    assert driver(code) == [2 << 20, 1, 1, 1, 0, 1, 1, 1, 0, 1]


def test_pointer_attributes_tell_what_an_address_is() -> None:
    code = """
    ctx = context()
    P = cu.CUpointer_attribute
    get = lambda name, p: int(r[1]) if rc(r := cu.cuPointerGetAttribute(getattr(P,
        "CU_POINTER_ATTRIBUTE_" + name), p)) == 0 else "error %d" % rc(r)
    linear, managed, host = ok(cu.cuMemAlloc(1000)), ok(cu.cuMemAllocManaged(1000,
        1)), ok(cu.cuMemHostAlloc(1000, 0))
    page = np.zeros(4096, dtype=np.uint8)
    ok(cu.cuMemHostRegister(page.ctypes.data, 4096, 0))
    answer = []
    for p in (int(linear), int(managed), int(host), page.ctypes.data):
        answer.append([get("MEMORY_TYPE", p + 10), get("IS_MANAGED", p), get("DEVICE_ORDINAL", p),
                       get("RANGE_START_ADDR", p + 10) == p, get("RANGE_SIZE", p)])
    answer += [get("DEVICE_ORDINAL", 0x1234), rc(cu.cuMemHostUnregister(page.ctypes.data)),
               rc(cu.cuMemHostUnregister(page.ctypes.data)), rc(cu.cuMemHostRegister(linear, 10,
                   0)),
               [int(x) for x in ok(cu.cuMemGetAddressRange(int(linear) + 7))] == [int(linear),
                   1000]]
    many = ok(cu.cuPointerGetAttributes(2,
        [P.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, P.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL], 0x1234))
    answer.append([int(many[0]), int(many[1])])
    """
    assert driver(code) == [
        [2, 0, 0, True, 1000],
        [2, 1, 0, True, 1000],
        [1, 0, 0, True, 1000],
        [1, 0, 0, True, 4096],
        *("error 1", 0, 713, 712, True),
        [0, 2**32 - 2],
    ]


def test_memory_opened_by_ipc_is_the_same_and_charged_to_the_exporter_only() -> None:
    code = f"""{OTHER}
context()
p = ok(cu.cuMemAlloc(10 * MIB)); q = ok(cu.cuMemAlloc(3000))
ok(cu.cuMemsetD32(q, 77, 100))
handle = bytes(ok(cu.cuIpcGetMemHandle(q)).reserved)
child = other('''
context()
before = used()
handle = cu.CUipcMemHandle(); handle.reserved = bytes.fromhex(sys.argv[1])
p, again = ok(cu.cuIpcOpenMemHandle(handle, 1)), ok(cu.cuIpcOpenMemHandle(handle, 1))
value = int(download(p, 1)[0])
ok(cu.cuMemsetD32(p, 78, 100))
charged = [g["processes"] for g in stat()["gpus"]][0]
mine = [x["kinds"].get("linear", 0) for x in charged if x["pid"] == os.getpid()]
print(json.dumps([value, int(p) == int(again), used() - before, mine, rc(cu.cuMemFree(p)),
                  rc(cu.cuIpcCloseMemHandle(p)), rc(cu.cuIpcCloseMemHandle(p)), rc(
                      cu.cuIpcCloseMemHandle(p))]))
''', handle.hex())
answer = [json.loads(child.communicate()[0]), int(download(q, 1)[0])]
mine = cu.CUipcMemHandle(); mine.reserved = handle
answer.append(rc(cu.cuIpcOpenMemHandle(mine, 1)))
managed = ok(cu.cuMemAllocManaged(100, 1)); answer.append(rc(cu.cuIpcGetMemHandle(managed)))
"""
    assert driver(code) == [[77, True, 0, [0], 1, 0, 0, 1], 78, 201, 1]


def test_an_exported_handle_lives_in_the_importer_when_the_exporter_is_gone() -> None:
    code = f"""{OTHER}
program = '''
import socket
context()
prop = cu.CUmemAllocationProp()
prop.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
prop.requestedHandleTypes = cu.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
prop.location = device_location()
access = cu.CUmemAccessDesc()
access.location, access.flags = device_location(
    ), cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
posix = prop.requestedHandleTypes
def mapped(handle):
    va = ok(cu.cuMemAddressReserve(4 * MIB, 0, 0, 0))
    ok(cu.cuMemMap(va, 4 * MIB, 0, handle, 0)); ok(cu.cuMemSetAccess(va, 4 * MIB, [access], 1))
    return va
'''
import socket
ours, theirs = socket.socketpair()
child = other(program + '''
s = socket.socket(fileno=int(sys.argv[1]))
handle = ok(cu.cuMemCreate(4 * MIB, prop, 0))
ok(cu.cuMemsetD32(mapped(handle), 99, 10))
fd = ok(cu.cuMemExportToShareableHandle(handle, posix, 0))
socket.send_fds(s, [b"x"], [fd])
s.recv(1)
os.kill(os.getpid(), signal.SIGKILL)
''', theirs.fileno(), fds=[theirs.fileno()])
exec(program)
base = stat()["gpus"][0]["used"]
fd = socket.recv_fds(ours, 1, 1)[1][0]
handle = ok(cu.cuMemImportFromShareableHandle(fd, posix)); va = mapped(handle)
answer = [int(download(va, 1)[0])]
me = lambda: [p["kinds"].get("vmm",
    0) for p in stat()["gpus"][0]["processes"] if p["pid"] == os.getpid()]
answer.append(me())
ours.send(b"x"); child.wait()
g = stat()["gpus"][0]
answer += [g["orphaned"] // MIB, int(download(va, 1)[0]), me()]
ok(cu.cuMemRelease(handle)); answer.append(stat()["gpus"][0]["orphaned"] // MIB)
ok(cu.cuMemUnmap(va, 4 * MIB)); answer.append(stat()["gpus"][0]["orphaned"])
answer.append(rc(cu.cuMemImportFromShareableHandle(fd, posix)))
"""
    assert driver(code) == [99, [0], 4, 99, [0], 4, 0, 1]


def test_a_pool_is_shared_by_descriptor_and_pointer() -> None:
    code = f"""{OTHER}
context()
posix = cu.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
props = cu.CUmemPoolProps()
props.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
props.handleTypes, props.location = posix, device_location()
pool = ok(cu.cuMemPoolCreate(props))
p = ok(cu.cuMemAllocFromPoolAsync(5000, pool, 0))
ok(cu.cuMemsetD32(p, 5, 10))
ok(cu.cuCtxSynchronize())
fd = ok(cu.cuMemPoolExportToShareableHandle(pool, posix, 0))
data = bytes(ok(cu.cuMemPoolExportPointer(p)).reserved)
child = other('''
context()
posix = cu.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
pool = ok(cu.cuMemPoolImportFromShareableHandle(int(sys.argv[1]), posix, 0))
data = cu.CUmemPoolPtrExportData(); data.reserved = bytes.fromhex(sys.argv[2])
before = used()
p = ok(cu.cuMemPoolImportPointer(pool, data))
print(json.dumps([int(download(p, 1)[0]), used() - before,
    rc(cu.cuMemAllocFromPoolAsync(100, pool, 0)), rc(cu.cuMemFree(p))]))
''', fd, data.hex(), fds=[fd])
answer = json.loads(child.communicate()[0])
"""
    assert driver(code) == [5, 0, 1, 0]


def test_external_memory_is_mapped_and_not_charged() -> None:
    code = """
    context()
    fd = os.memfd_create("foreign")
    os.ftruncate(fd, MIB)
    os.pwrite(fd, struct.pack("<I", 1234), 4096)
    desc = cu.CUDA_EXTERNAL_MEMORY_HANDLE_DESC()
    desc.type = cu.CUexternalMemoryHandleType.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD
    desc.handle.fd, desc.size = os.dup(fd), MIB
    base = used()
    memory = ok(cu.cuImportExternalMemory(desc))
    buffer = cu.CUDA_EXTERNAL_MEMORY_BUFFER_DESC()
    buffer.offset, buffer.size = 4096, 4096
    p = ok(cu.cuExternalMemoryGetMappedBuffer(memory, buffer))
    answer = [int(download(p, 1)[0]), used() - base, rc(cu.cuMemsetD32(p, 9, 1)),
        os.pread(fd, 1, 4096)[0]]
    buffer.size = MIB
    answer += [rc(cu.cuExternalMemoryGetMappedBuffer(memory, buffer)), rc(cu.cuMemFree(p)),
        rc(cu.cuMemFree(p)),
               rc(cu.cuDestroyExternalMemory(memory)), used() - base]
    """
    assert driver(code) == [1234, 0, 0, 9, 1, 0, 1, 0, 0]


def test_freeing_costs_the_same_at_any_number_of_live_blocks(small: str) -> None:
    """Not a matter of time: nothing that is looked at grows with the blocks."""
    code = """
    context()
    import random
    blocks = [int(ok(cu.cuMemAlloc(4096))) for _ in range(20000)]
    assert len(set(blocks)) == 20000
    random.Random(1).shuffle(blocks)
    for p in blocks[:10000]: ok(cu.cuMemFree(p))
    again = [int(ok(cu.cuMemAlloc(4096))) for _ in range(10000)]
    answer = [len(set(blocks[10000:]) | set(again)), set(again) == set(blocks[:10000])]
    for p in blocks[10000:] + again: ok(cu.cuMemFree(p))
    answer.append(used() >> 20)
    """
    assert driver(code, machine=small) == [20000, True, 1]


def test_touched_memory_goes_back_to_the_host_when_freed() -> None:
    code = """
    context()
    shared = lambda: int(Path("/proc/self/status").read_text().split("RssShmem:")[1].split()[
        0]) // 1024
    start = shared()
    p = ok(cu.cuMemAlloc(200 * MIB)); answer = [shared() - start]
    ok(cu.cuMemsetD8(p, 1, 100 * MIB)); answer.append(shared() - start)
    ok(cu.cuMemFree(p)); answer.append(shared() - start)
    """
    assert driver(code) == [0, 100, 0]


def test_batches_of_copies_move_each_of_their_parts() -> None:
    code = """
    context()
    s = ok(cu.cuStreamCreate(1))
    a, b = ok(cu.cuMemAlloc(4096)), ok(cu.cuMemAlloc(4096))
    host = np.arange(4096, dtype=np.uint8)
    ok(cu.cuMemcpyHtoD(a, host.ctypes.data, 4096))
    ok(cu.cuMemsetD8(b, 0, 4096))
    attributes = cu.CUmemcpyAttributes()
    attributes.srcAccessOrder = cu.CUmemcpySrcAccessOrder.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
    answer = [rc(cu.cuMemcpyBatchAsync([b, cu.CUdeviceptr(int(b) + 100)],
        [cu.CUdeviceptr(int(a) + 7), a], [3, 2], 2, [attributes], [0], 1, s))]
    ok(cu.cuStreamSynchronize(s))
    got = download(b, 102, np.uint8); answer += [got[:4].tolist(), got[100:].tolist()]
    op = cu.CUDA_MEMCPY3D_BATCH_OP()
    for side, base in ((op.src, a), (op.dst, b)):
        side.type = cu.CUmemcpy3DOperandType.CU_MEMCPY_OPERAND_TYPE_POINTER
        side.op.ptr.ptr, side.op.ptr.rowLength, side.op.ptr.layerHeight = base, 64, 4
    op.extent.width, op.extent.height, op.extent.depth = 8, 2, 2
    op.srcAccessOrder = attributes.srcAccessOrder
    ok(cu.cuMemsetD8(b, 0, 4096))
    answer.append(rc(cu.cuMemcpy3DBatchAsync(1, [op], 0, s))); ok(cu.cuStreamSynchronize(s))
    box = download(b, 512, np.uint8).reshape(2, 4, 64)
    answer.append(bool((box[:, :2, :8] == host[:512].reshape(2, 4, 64)[:, :2,
        :8]).all()) and int((box != 0).sum()) < 33)
    """
    assert driver(code) == [0, [7, 8, 9, 0], [0, 1], 0, True]
