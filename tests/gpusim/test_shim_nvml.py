"""NVML as a step sees it, asked with nvidia-ml-py: the step's vGPUs and nothing else."""

from __future__ import annotations

import json

from tests.gpusim.step import GIB, MIB, Step

CONTEXT = 256 * MIB
VGPUS = ("1GiB", "2GiB")
LIBRARY = 'lib = ctypes.CDLL("libnvidia-ml.so.1")'


def test_the_gpus_are_the_steps_in_the_steps_order(step: Step) -> None:
    code = """
found = gpus()
uuids = [n.nvmlDeviceGetUUID(gpu) for gpu in found]
answer = [
    len(found), uuids == os.environ["CUDA_VISIBLE_DEVICES"].split(","),
    [n.nvmlDeviceGetIndex(gpu) for gpu in found],
    error(n.nvmlDeviceGetHandleByIndex, 2), error(n.nvmlDeviceGetHandleByIndex, 99),
    [n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByUUID(uuid)) == uuid for uuid in uuids],
]
"""
    assert step.run(code) == [2, True, [0, 1], 2, 2, [True, True]]


def test_gpus_of_others_are_not_found_by_any_name(step: Step, native: Step) -> None:
    names = """
found = gpus()
answer = [[n.nvmlDeviceGetUUID(gpu), n.nvmlDeviceGetPciInfo(gpu).busId, n.nvmlDeviceGetSerial(gpu)]
          for gpu in found]
"""
    all_of_them = native.run(names)
    assert len(all_of_them) == 4
    code = f"""
n.nvmlInit()
answer = [[error(n.nvmlDeviceGetHandleByUUID, uuid), error(n.nvmlDeviceGetHandleByPciBusId, pci),
           error(n.nvmlDeviceGetHandleBySerial, serial)] for uuid, pci, serial in {all_of_them!r}]
"""
    assert step.run(code) == [[0, 0, 0], [0, 0, 0], [6, 6, 6], [6, 6, 6]]


def test_a_whole_gpu_beside_the_vgpus_comes_after_them_untouched(step: Step) -> None:
    """GPU 3, whose device file is not covered in this process, as if Slurm had given it."""
    code = """
subprocess.run(["unshare", "--mount", "bash", "-c", 'umount /dev/nvidia3 && exec "$@"', "-",
    sys.executable, "-c", PRELUDE + '''
found = gpus()
say([len(found), n.nvmlDeviceGetMinorNumber(found[2]), n.nvmlDeviceGetIndex(found[2]),
     n.nvmlDeviceGetMemoryInfo(found[2]).total, error(n.nvmlDeviceGetHandleByIndex, 3)])
'''])
answer = None
"""
    outcome = step.outcome(code)
    assert outcome == (0, json.dumps([3, 3, 2, 40 * GIB, 2]) + "\n", "")


def test_memory_is_the_quota_and_the_charges_in_both_versions(step: Step) -> None:
    code = """
one, two = gpus()
start(0)
ok(d.cuMemAlloc(100 * MIB))
v1, v2 = n.nvmlDeviceGetMemoryInfo(one), n.nvmlDeviceGetMemoryInfo(one, version=n.nvmlMemory_v2)
other = n.nvmlDeviceGetMemoryInfo(two)
answer = [[v1.total, v1.used, v1.free], [v2.total, v2.used, v2.free, v2.reserved],
          [other.total, other.used]]
"""
    used = 100 * MIB + CONTEXT
    assert step.run(code) == [
        [GIB, used, GIB - used], [GIB, used, GIB - used, 0], [2 * GIB, 0]
    ]  # fmt: skip


def test_another_process_reads_what_is_used(step: Step) -> None:
    code = """
start(0)
ok(d.cuMemAlloc(512 * MIB))
answer = child('''
n.nvmlInit()
memory = n.nvmlDeviceGetMemoryInfo(n.nvmlDeviceGetHandleByIndex(0))
say([memory.used, memory.free])
''').hear()
"""
    used = 512 * MIB + CONTEXT
    assert step.run(code) == [used, GIB - used]


def test_wrong_arguments_answer_as_natively(step: Step, native: Step) -> None:
    code = (
        LIBRARY
        + """
before = [lib.nvmlDeviceGetCount_v2(ctypes.byref(ctypes.c_uint())),
          lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(ctypes.c_void_p()))]
gpu = gpus()[0]
old = (ctypes.c_uint * 10)(0x01000028)
answer = [before, lib.nvmlDeviceGetMemoryInfo_v2(gpu, old), lib.nvmlDeviceGetMemoryInfo(gpu, None),
          lib.nvmlDeviceGetCount_v2(None), lib.nvmlDeviceGetHandleByIndex_v2(0, None),
          lib.nvmlDeviceGetHandleByUUID(b"GPU-nothing", ctypes.byref(ctypes.c_void_p())),
          lib.nvmlDeviceGetHandleByUUID(None, ctypes.byref(ctypes.c_void_p())),
          lib.nvmlDeviceGetComputeRunningProcesses_v3(gpu, None, None)]
"""
    )
    assert step.run(code) == native.run(code)


def test_initialisation_counts_as_natively(step: Step, native: Step) -> None:
    code = (
        LIBRARY
        + """
answer = [error(n.nvmlDeviceGetCount)]
n.nvmlInit(); n.nvmlInit(); lib.nvmlInitWithFlags(0)
for _ in range(4):
    answer += [error(n.nvmlShutdown), error(n.nvmlDeviceGetCount)]
"""
    )
    assert step.run(code) == native.run(code)


LISTS = """
def pids(function, record, gpu, room=64):
    count = ctypes.c_uint(room)
    records = (ctypes.c_ubyte * (record * max(room, 1)))()
    rc = getattr(lib, function)(gpu, ctypes.byref(count), records if room else None)
    found = [int.from_bytes(bytes(records[i * record:i * record + 4]), "little")
             for i in range(count.value)] if rc == 0 else []
    return [rc, count.value, sorted(found)]
VERSIONS = (("", 16), ("_v2", 24), ("_v3", 24))
"""


def test_process_lists_of_every_version_show_the_vgpus_processes_only(step: Step) -> None:
    """A process of somebody else on the card is on the native list and not on ours."""
    code = (
        LIBRARY
        + LISTS
        + """
start(0)
stranger = subprocess.Popen(["nsenter", "--target=1", "--mount", "--", f"{PROGRAMS}/hold", "linear",
    str(MIB), "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    env=os.environ | {"CUDA_VISIBLE_DEVICES": os.environ["CUDA_VISIBLE_DEVICES"].split(",")[0]})
stranger.stdout.readline()
friend = child("start(0); say(os.getpid()); hear()")
friend.hear()
gpu = gpus()[0]
both = sorted([os.getpid(), friend.pid])
name = "nvmlDeviceGetComputeRunningProcesses"
answer = [
    [pids(name + v, size, gpu) == [0, 2, both] for v, size in VERSIONS],
    [pids(name + v, size, gpu, 1)[:2] for v, size in VERSIONS],
    [pids(name + v, size, gpu, 0)[:2] for v, size in VERSIONS],
    [pids(kind + v, size, gpu)[:2] for v, size in VERSIONS
     for kind in ("nvmlDeviceGetGraphicsRunningProcesses",
                  "nvmlDeviceGetMPSComputeRunningProcesses")],
    sorted(p.pid for p in n.nvmlDeviceGetComputeRunningProcesses(gpu)) == both,
    len(stat()["gpus"][0]["processes"]),
]
stranger.communicate("\\n\\n")
friend.kill()
"""
    )
    assert step.run(code) == [
        [True] * 3, [[7, 2]] * 3, [[7, 2]] * 3, [[0, 0]] * 6, True, 3
    ]  # fmt: skip


def test_everything_else_passes_through(step: Step, native: Step) -> None:
    code = """
gpu = gpus()[0]
answer = [n.nvmlSystemGetDriverVersion(), n.nvmlDeviceGetName(gpu), n.nvmlDeviceGetUUID(gpu),
          n.nvmlDeviceGetMinorNumber(gpu), n.nvmlDeviceGetNumGpuCores(gpu),
          n.nvmlDeviceGetPowerManagementLimit(gpu), n.nvmlDeviceGetCudaComputeCapability(gpu)]
"""
    assert step.run(code) == native.run(code)


def test_stale_files_of_anybody_do_not_matter(step: Step) -> None:
    code = """
for folder in ("/tmp", "/dev/shm", "/var/tmp"):
    for name in ("vgpu", "vgpu.cache", "libvgpu", "cudevshr.cache"):
        try:
            Path(folder, name).write_bytes(b"garbage" * 100)
        except OSError:
            pass
n.nvmlInit()
start()
answer = [info()[1], code(d.cuMemAlloc(2 * GIB))]
"""
    assert step.run(code) == [GIB, 2]
