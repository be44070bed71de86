"""Many processes on one simulated GPU: counted together, timed together, and cleaned up after."""

from __future__ import annotations

from tests.gpusim.inside import PROGRAMS, inside, shared

MIB = 1 << 20

START = f"""
def start(program, *arguments, env=None):
    "A program that is ready."
    process = subprocess.Popen(
        ["{PROGRAMS}/" + program, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | (env or {{}}),
    )
    process.first = process.stdout.readline()
    return process

def end(*processes):
    for process in processes:
        process.kill()
        process.wait()

def held():
    "Bytes in use on GPU 0, by process."
    gpu = stat()["gpus"][0]
    held = {{process["pid"]: process["bytes"] for process in gpu["processes"]}}
    assert gpu["used"] == sum(held.values()) + gpu["orphaned"]
    return held
"""


def test_200_processes_at_once_are_all_listed_and_leave_nothing(small: str) -> None:
    code = (
        START
        + """
processes = [start("hold", "linear", MIB, 1) for _ in range(200)]
(gpu, _) = gpus()
listed = n.nvmlDeviceGetComputeRunningProcesses(gpu)
pids = {process.pid for process in processes}
answer = [
    {process.pid for process in listed} == pids == set(held()),
    {process.usedGpuMemory for process in listed} == {2 * MIB},
    n.nvmlDeviceGetMemoryInfo(gpu).used == 400 * MIB,
]
end(*processes)
answer += [held() == {}, n.nvmlDeviceGetComputeRunningProcesses(gpu) == []]
"""
    )
    assert shared(code, machine=small) == [True] * 5


def test_processes_killed_at_any_moment_leave_not_a_byte(small: str) -> None:
    code = (
        START
        + """
import random
chance = random.Random(1)
churns = [start("churn", seed, 0, 100) for seed in range(1, 5)]
for seed in range(5, 105):
    victim = churns.pop(chance.randrange(len(churns)))
    time.sleep(chance.random() / 50)
    end(victim)
    assert victim.pid not in held()
    churns.append(start("churn", seed, 0, 100))
    # The others may have left no room for its context.
    assert churns[-1].first == "ready\\n" or churns[-1].wait() == 1, seed
most = stat("--watch-max", "all", "--seconds", "0.5")["max_bytes"][0]
end(*churns)
gpu = stat()["gpus"][0]
answer = [0 < most <= gpu["memory"], gpu["peak"] <= gpu["memory"], gpu["used"], gpu["orphaned"]]
"""
    )
    assert inside(code, machine=small, timeout=120) == [True, True, 0, 0]


def test_a_process_killed_while_it_starts_is_no_harm_to_the_next(small: str) -> None:
    code = (
        START
        + f"""
import random
chance = random.Random(2)
for _ in range(200):
    process = subprocess.Popen(["{PROGRAMS}/churn", "1", "0"], stdout=subprocess.DEVNULL)
    time.sleep(chance.random() / 100)
    end(process)
after = start("churn", 1, 0.1)
answer = [after.first, after.wait(), held()]
"""
    )
    assert shared(code, machine=small) == ["ready\n", 0, {}]


def test_the_high_water_mark_of_a_group_is_that_of_its_sum(small: str) -> None:
    code = (
        START
        + """
group = {"GPUSIM_GROUP": "job"}
a = start("hold", "linear", 100 * MIB, 1, env=group)
b = start("hold", "vmm", 200 * MIB, 1, env=group)
c = start("hold", "linear", 400 * MIB, 1)
end(a)
d = start("hold", "array", 50 * MIB, 1, env=group)
(job,) = stat()["groups"]
answer = [job["name"], job["gpus"][0]["bytes"] // MIB, job["gpus"][0]["peak"] // MIB]
end(b, c, d)
"""
    )
    during = 200 + 1 + 52 + 1  # an array has a row more than was asked for: the next 2 MiB
    assert inside(code, machine=small) == ["job", during, 302]


def test_two_busy_processes_share_the_gpu_half_and_half_to_the_slice(small: str) -> None:
    code = (
        START
        + """
spins = [start("spin", 700_000, 0), start("spin", 1_900_000, 0)]
time.sleep(0.2)

def look():
    gpu = stat()["gpus"][0]
    busy = {process["pid"]: process["busy_ns"] for process in gpu["processes"]}
    return gpu["now_ns"], gpu["busy_ns"], *(busy[spin.pid] for spin in spins)

before = look()
time.sleep(1)
answer = [after - before for before, after in zip(before, look())]
end(*spins)
"""
    )
    wall, busy, first, second = shared(code, machine=small)
    assert busy == wall
    assert first + second == busy
    assert abs(first - second) <= 4_000_000


def test_utilisation_by_process_is_what_they_used(small: str) -> None:
    code = (
        START
        + """
spins = [start("spin", 1_000_000, 0) for _ in range(2)]
time.sleep(1)
(busy, idle) = gpus()
samples = n.nvmlDeviceGetProcessUtilization(busy, int(time.time() * 1e6) - 600_000)
use = {sample.pid: sample.smUtil for sample in samples}
last = max(sample.timeStamp for sample in samples)
answer = [
    sorted(use) == sorted(spin.pid for spin in spins),
    [45 <= use[spin.pid] <= 55 for spin in spins],
    n.nvmlDeviceGetUtilizationRates(busy).gpu,
    n.nvmlDeviceGetUtilizationRates(idle).gpu,
    error(n.nvmlDeviceGetProcessUtilization, idle, 0) == n.NVML_ERROR_NOT_FOUND,
    error(n.nvmlDeviceGetProcessUtilization, busy, last + 3_600_000_000) == n.NVML_ERROR_NOT_FOUND,
    n.nvmlDeviceGetSamples(busy, n.NVML_GPU_UTILIZATION_SAMPLES, 0)[1][-1].sampleValue.uiVal,
    n.nvmlDeviceGetPowerUsage(busy) > 2 * n.nvmlDeviceGetPowerUsage(idle),
]
end(*spins)
"""
    )
    assert shared(code, machine=small) == [True, [True, True], 100, 0, True, True, 100, True]


def test_memory_of_a_killed_process_stays_listed_as_long_as_the_driver_takes(small: str) -> None:
    code = (
        START
        + """
faults("release 3000ms")
process = start("hold", "linear", 100 * MIB, 1)
(gpu, _) = gpus()
end(process)
def listed():
    found = n.nvmlDeviceGetComputeRunningProcesses(gpu)
    return [(entry.pid == process.pid, entry.usedGpuMemory // MIB) for entry in found]
before = listed()
(dead,) = stat()["gpus"][0]["processes"]
while held():
    time.sleep(0.1)
answer = [before, dead["state"], held(), listed()]
"""
    )
    assert shared(code, machine=small) == [[[True, 101]], "dead", {}, []]


FORK_AND_EXEC = """
import os, sys
from cuda.bindings import driver as cu
cu.cuInit(0)
cu.cuCtxSetCurrent(cu.cuDevicePrimaryCtxRetain(0)[1])
cu.cuMemAlloc(100 << 20)
print("holds", flush=True)
sys.stdin.readline()
if os.fork() == 0:
    os._exit(0)
os.wait()
print("forked", flush=True)
sys.stdin.readline()
os.execlp("sleep", "sleep", "60")
"""


def test_a_fork_changes_nothing_and_exec_gives_everything_back(small: str) -> None:
    code = (
        START
        + f"""
process = subprocess.Popen(
    [sys.executable, "-c", {FORK_AND_EXEC!r}],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
)
answer = []
for _ in range(2):
    process.stdout.readline()
    answer.append(list(held().values()))
    print(file=process.stdin, flush=True)
while Path(f"/proc/{{process.pid}}/comm").read_text() != "sleep\\n":
    time.sleep(0.01)
answer.append(list(held().values()))
end(process)
"""
    )
    assert shared(code, machine=small) == [[101 * MIB], [101 * MIB], []]


def test_compute_modes_keep_other_processes_or_all_off_the_gpu(small: str) -> None:
    code = (
        START
        + """
(gpu, other) = gpus()
n.nvmlDeviceSetComputeMode(gpu, n.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
first, second = start("hold", "linear", MIB, 1), start("hold", "linear", MIB, 1)
answer = [bool(first.first), second.first, second.wait()]
end(first)
third = start("hold", "linear", MIB, 1)
end(third)
n.nvmlDeviceSetComputeMode(gpu, n.NVML_COMPUTEMODE_PROHIBITED)
fourth = start("hold", "linear", MIB, 1)
answer += [bool(third.first), fourth.first, fourth.wait()]
"""
    )
    assert inside(code, machine=small) == [True, "", 1, True, "", 1]


def test_a_process_is_known_by_the_program_that_it_runs(small: str) -> None:
    code = (
        START
        + """
process = start("hold", "linear", MIB, 1)
n.nvmlInit()
name = n.nvmlSystemGetProcessName(process.pid)
end(process)
answer = [Path(name).name, error(n.nvmlSystemGetProcessName, process.pid) == n.NVML_ERROR_NOT_FOUND]
"""
    )
    assert shared(code, machine=small) == ["hold", True]


def test_accounting_tells_of_running_processes_once_it_is_on(small: str) -> None:
    code = (
        START
        + """
(gpu, _) = gpus()
process = start("hold", "linear", 100 * MIB, 1)
off = error(n.nvmlDeviceGetAccountingPids, gpu) == n.NVML_ERROR_NOT_SUPPORTED
n.nvmlDeviceSetAccountingMode(gpu, 1)
pids = n.nvmlDeviceGetAccountingPids(gpu)
stats = n.nvmlDeviceGetAccountingStats(gpu, process.pid)
answer = [off, list(pids) == [process.pid], stats.maxMemoryUsage // MIB, stats.isRunning]
end(process)
"""
    )
    assert inside(code, machine=small) == [True, True, 101, 1]


def test_graphics_processes_are_in_a_list_of_their_own(small: str) -> None:
    code = (
        START
        + """
(gpu, _) = gpus()
compute = start("hold", "linear", MIB, 1)
graphics = start("hold", "linear", 2 * MIB, 1, env={"GPUSIM_TYPE": "graphics"})
listed = [
    [[entry.pid, entry.usedGpuMemory // MIB] for entry in processes(gpu)]
    for processes in (
        n.nvmlDeviceGetComputeRunningProcesses,
        n.nvmlDeviceGetComputeRunningProcesses_v2,
        n.nvmlDeviceGetGraphicsRunningProcesses,
        n.nvmlDeviceGetMPSComputeRunningProcesses,
    )
]
answer = listed == [[[compute.pid, 2]], [[compute.pid, 2]], [[graphics.pid, 3]], []]
end(compute, graphics)
"""
    )
    assert shared(code, machine=small)


def test_the_oldest_process_list_has_short_records_and_says_how_many_it_needs(small: str) -> None:
    code = (
        START
        + """
class Record(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("bytes", ctypes.c_ulonglong)]

(gpu, _) = gpus()
processes = [start("hold", "linear", MIB, 1) for _ in range(3)]
count, room = ctypes.c_uint(2), (Record * 3)()
list_them = n.nvmlLib.nvmlDeviceGetComputeRunningProcesses
short = list_them(gpu, ctypes.byref(count), room)
needed = count.value
enough = list_them(gpu, ctypes.byref(count), room)
pids = sorted(process.pid for process in processes)
answer = [ctypes.sizeof(Record), short, needed, enough, sorted(r.pid for r in room) == pids]
end(*processes)
"""
    )
    insufficient_size = 7
    assert shared(code, machine=small) == [16, insufficient_size, 3, 0, True]
