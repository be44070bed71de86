"""Devices and symbols of the simulated libcuda."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.gpusim.driver import driver
from tests.gpusim.inside import shared
from tests.sandbox.paths import REPOSITORY

LIBRARY = REPOSITORY / "build" / "gpusim" / "libcuda.so.1"
HEADERS = REPOSITORY / "build" / "venv" / "include-cuda"

PROC = """
lib = ctypes.CDLL("libcuda.so.1")
def symbol(pointer):
    "Which exported function it is."
    if not pointer:
        return None
    for name in names:
        if ctypes.cast(getattr(lib, name), ctypes.c_void_p).value == pointer:
            return name
def proc(name, version, flags=0):
    pointer, status = ctypes.c_void_p(), ctypes.c_int(-1)
    code = lib.cuGetProcAddress_v2(
        name.encode(), ctypes.byref(pointer), version, ctypes.c_uint64(flags), ctypes.byref(status))
    return [code, symbol(pointer.value), status.value]
"""


@pytest.fixture(scope="module")
def exports() -> list[str]:
    text = subprocess.check_output(["nm", "-D", "--defined-only", str(LIBRARY)], text=True)
    return [line.split()[2] for line in text.splitlines()]


def test_every_function_of_the_header_is_exported_and_nothing_else(exports: list[str]) -> None:
    code = re.sub(r"/\*.*?\*/", " ", (HEADERS / "cuda.h").read_text(), flags=re.DOTALL)
    declared = set(re.findall(r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(", code))
    typed = (HEADERS / "cudaTypedefs.h").read_text()
    bases = {name for name, _ in re.findall(r"\*PFN_(cu\w+?)_v(\d+)\)", typed)}
    assert declared <= set(exports)
    assert not {base for base in bases if not any(e.startswith(base) for e in exports)}
    assert all(name.startswith("cu") for name in exports)
    assert len(exports) >= 634


def test_the_library_is_linked_like_a_driver() -> None:
    dynamic = subprocess.check_output(["readelf", "-d", str(LIBRARY)], text=True)
    assert "Library soname: [libcuda.so.1]" in dynamic
    assert "SYMBOLIC" in dynamic


def test_proc_addresses_go_by_version_and_stream_flavour(exports: list[str]) -> None:
    asked = {
        ("cuMemAlloc", 2000, 0): "cuMemAlloc",
        ("cuMemAlloc", 3010, 0): "cuMemAlloc",
        ("cuMemAlloc", 3020, 0): "cuMemAlloc_v2",
        ("cuMemAlloc", 13000, 1): "cuMemAlloc_v2",
        ("cuCtxCreate", 3020, 0): "cuCtxCreate_v2",
        ("cuCtxCreate", 11040, 0): "cuCtxCreate_v3",
        ("cuCtxCreate", 12040, 0): "cuCtxCreate_v3",
        ("cuCtxCreate", 13000, 0): "cuCtxCreate_v4",
        ("cuCtxGetDevice", 12090, 0): "cuCtxGetDevice",
        ("cuCtxGetDevice", 13000, 0): "cuCtxGetDevice_v2",
        ("cuEventElapsedTime", 12080, 0): "cuEventElapsedTime_v2",
        ("cuMemPrefetchAsync", 12020, 0): "cuMemPrefetchAsync_v2",
        ("cuMemPrefetchAsync", 12010, 2): "cuMemPrefetchAsync_ptsz",
        ("cuGraphAddKernelNode", 10000, 0): "cuGraphAddKernelNode",
        ("cuGraphAddKernelNode", 12000, 0): "cuGraphAddKernelNode_v2",
        ("cuGraphGetEdges", 12030, 0): "cuGraphGetEdges_v2",
        ("cuGetProcAddress", 11030, 0): "cuGetProcAddress",
        ("cuGetProcAddress", 12000, 0): "cuGetProcAddress_v2",
        ("cuLaunchKernel", 13000, 0): "cuLaunchKernel",
        ("cuLaunchKernel", 13000, 2): "cuLaunchKernel_ptsz",
        ("cuMemcpyHtoD", 13000, 2): "cuMemcpyHtoD_v2_ptds",
        ("cuMemcpyHtoD", 6000, 2): "cuMemcpyHtoD_v2",
        ("cuMemAllocAsync", 11020, 2): "cuMemAllocAsync_ptsz",
        ("cuInit", 13000, 2): "cuInit",
    }
    code = f"names = {exports!r}\n{PROC}\nanswer = [proc(*a) for a in {list(asked)!r}]"
    assert shared(code) == [[0, name, 0] for name in asked.values()]


def test_proc_addresses_that_do_not_exist_say_why(exports: list[str]) -> None:
    code = f"""names = {exports!r}\n{PROC}
none = ctypes.c_void_p()
answer = [
    proc("cuNoSuchThing", 13000), proc("cuMemAllocAsync", 11010), proc("cuMemAlloc_v2", 13000),
    lib.cuGetProcAddress_v2(b"cuInit", None, 13000, ctypes.c_uint64(0), None),
    lib.cuGetProcAddress_v2(b"cuInit", ctypes.byref(none), 13000, ctypes.c_uint64(0), None),
    lib.cuGetProcAddress(b"cuInit", ctypes.byref(none), 13000, ctypes.c_uint64(0)),
    lib.cuGetProcAddress(b"cuNoSuchThing", ctypes.byref(none), 13000, ctypes.c_uint64(0)),
    lib.cuGetProcAddress_v2(b"cuInit", ctypes.byref(none), 13000, ctypes.c_uint64(9), None),
]"""
    assert shared(code) == [[500, None, 1], [500, None, 2], [500, None, 1], 1, 0, 0, 500, 1]


def test_an_older_driver_knows_less(exports: list[str], older: str) -> None:
    code = f"""names = {exports!r}\n{PROC}
version = ctypes.c_int()
lib.cuDriverGetVersion(ctypes.byref(version))
answer = [version.value, proc("cuCtxCreate", 13000), proc("cuCtxGetDevice", 13000),
    proc("cuMemGetMemPool", 13000)]"""
    assert shared(code, machine=older) == [
        12040,
        [0, "cuCtxCreate_v3", 0],
        [0, "cuCtxGetDevice", 0],
        [500, None, 1],
    ]


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("machines") / "older.machine"
    path.write_text('machine=older cuda=12.4\ngpu=0 name="Old" memory=2GiB sms=16\n')
    return str(path)


def test_nothing_works_before_initialisation_but_what_needs_none() -> None:
    code = """
    lib = ctypes.CDLL("libcuda.so.1")
    count, text, table = ctypes.c_int(), ctypes.c_char_p(), ctypes.c_void_p(1)
    uuid = (ctypes.c_char * 16)()
    answer = [
        lib.cuDeviceGetCount(ctypes.byref(count)), lib.cuMemAlloc_v2(ctypes.byref(count), 1),
        lib.cuDriverGetVersion(ctypes.byref(count)), count.value,
        lib.cuGetErrorName(2, ctypes.byref(text)), text.value.decode(),
        lib.cuGetErrorString(2, ctypes.byref(text)), text.value.decode(),
        lib.cuGetErrorName(12345, ctypes.byref(text)),
        lib.cuGetExportTable(ctypes.byref(table), uuid), table.value, lib.cuInit(1),
    ]
    """
    assert shared(code) == [
        *(3, 3, 0, 13000, 0, "CUDA_ERROR_OUT_OF_MEMORY", 0, "out of memory", 1, 500, None, 1)
    ]


def test_devices_are_what_the_machine_file_says() -> None:
    code = """
    ok(cu.cuInit(0))
    answer = []
    for i in range(ok(cu.cuDeviceGetCount())):
        d = ok(cu.cuDeviceGet(i))
        A = cu.CUdevice_attribute
        uuid = ok(cu.cuDeviceGetUuid(d)).bytes.hex()
        pci = ok(cu.cuDeviceGetPCIBusId(16, d)).split(b"\\0")[0].decode()
        handle = gpus()[i]
        answer.append([
            ok(cu.cuDeviceGetName(64, d)).split(b"\\0")[0].decode() == n.nvmlDeviceGetName(handle),
            ok(cu.cuDeviceTotalMem(d)) >> 30,
            ok(cu.cuDeviceGetAttribute(A.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d)),
            ok(cu.cuDeviceGetAttribute(A.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d)),
            int(ok(cu.cuDeviceGetByPCIBusId(pci.encode()))) == i,
            n.nvmlDeviceGetUUID(handle).replace("-", "") == "GPU" + uuid,
            n.nvmlDeviceGetPciInfo(handle).busId.lower().endswith(pci),
        ])
    """
    assert driver(code) == [[True, 40, 108, 8, True, True, True]] * 4


VISIBLE = """
def seen(value=None, unset=False):
    "PCI bus numbers of the devices of a process with this CUDA_VISIBLE_DEVICES, or the error."
    program = '''
from cuda.bindings import driver as cu
error = int(cu.cuInit(0)[0])
A = cu.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_PCI_BUS_ID
print([int(cu.cuDeviceGetAttribute(A,
    i)[1]) for i in range(cu.cuDeviceGetCount()[1])] if not error else error)
'''
    environment = dict(os.environ)
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    if value is not None:
        environment["CUDA_VISIBLE_DEVICES"] = value
    return json.loads(subprocess.check_output([sys.executable, "-c", program], env=environment))
ok(cu.cuInit(0))
uuids = ["GPU-" + n.nvmlDeviceGetUUID(h)[4:] for h in gpus()]
"""


def test_visible_devices_filter_and_order() -> None:
    code = f"""{VISIBLE}
buses = seen()
which = lambda value: [buses.index(b) for b in r] if isinstance(r := seen(value), list) else r
answer = [
    which("2"), which("3,0"), which(""), which("-1"), which("1,9,2"), which("1,x"), which("0,0"),
    which(uuids[2]), which(uuids[3][:9] + "," + uuids[0][:9]), which(uuids[1].upper()),
    which("GPU-"), which("GPU-ffffffff"), which(" 1 , 2"), which("MIG-1"),
]
"""
    assert driver(code) == [
        *([2], [3, 0], 100, 100, [1], [1], 100),
        *([2], [3, 0], [1], 100, 100, [1, 2], 100),
    ]


def test_a_gpu_whose_device_file_cannot_be_opened_is_not_there() -> None:
    code = f"""{VISIBLE}
buses = seen()
answer = []
os.chmod("/dev/nvidia1", 0)
answer.append([buses.index(b) for b in seen()])
answer.append([buses.index(b) for b in seen("1")])
os.unlink("/dev/nvidia0")
answer.append([buses.index(b) for b in seen()])
os.unlink("/dev/nvidiactl")
answer.append(seen())
"""
    assert driver(code, alone=True) == [[0, 2, 3], [2], [2, 3], 100]


def test_peers_are_told_by_their_links() -> None:
    code = """
    ok(cu.cuInit(0))
    P = cu.CUdevice_P2PAttribute
    rank = lambda a, b: ok(cu.cuDeviceGetP2PAttribute(P.CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, a,
        b))
    first, second = context(0), None
    second = ok(cu.cuDevicePrimaryCtxRetain(1))
    answer = [
        rank(0, 1), rank(0,
            2), ok(cu.cuDeviceCanAccessPeer(0, 1)), ok(cu.cuDeviceCanAccessPeer(0, 0)),
        rc(cu.cuCtxEnablePeerAccess(second, 0)), rc(cu.cuCtxEnablePeerAccess(second, 0)),
        rc(cu.cuCtxEnablePeerAccess(first, 0)), rc(cu.cuCtxDisablePeerAccess(second)),
        rc(cu.cuCtxDisablePeerAccess(second)),
    ]
    """
    assert driver(code, machine="a100-pcie-4") == [0, 1, 1, 0, 0, 704, 201, 0, 705]
