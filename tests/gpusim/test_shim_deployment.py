"""Programs that have nothing to do with CUDA, and users who try to get out."""

from __future__ import annotations

import pytest

from tests.gpusim.step import GIB, Step

# --- programs without CUDA -----------------------------------------------------------------------

RUN = """
def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    return [done.returncode, done.stdout, done.stderr]
"""


@pytest.mark.parametrize(
    "command",
    [
        ["/bin/true"],
        ["/bin/false"],
        ["/bin/echo", "hello"],
        ["bash", "-c", "for i in $(seq 1000); do (:); done; echo done"],
        ["bash", "-c", "exit 7"],
        ["python3", "-c", "print(sum(range(10)))"],
        ["su", "alice", "-c", "id -un"],
        ["/sbin/ldconfig", "-p"],
    ],
    ids=["true", "false", "echo", "1000 forks", "exit code", "python", "setuid", "static"],
)
def test_programs_without_cuda_run_as_without_us(
    step: Step, native: Step, command: list[str]
) -> None:
    code = RUN + f"answer = run(*{command!r})"
    assert step.run(code) == native.run(code)


def test_in_a_program_without_cuda_there_is_nothing_of_ours_but_the_library(step: Step) -> None:
    code = (
        RUN
        + """
maps = run("cat", "/proc/self/maps")[1]
files = {line.split()[-1] for line in maps.splitlines() if ".so" in line}
threads = run("ls", "/proc/self/task")[1].split()
opened = run("ls", "/proc/self/fd")[1].split()
syscalls = run("strace", "-f", "-e", "trace=network,clone3,futex,madvise", "/bin/true")[2]
libraries = sorted(Path(file).name.split(".so")[0] for file in files)
answer = [libraries, len(threads), opened, syscalls]
"""
    )
    libraries, threads, opened, syscalls = step.run(code)
    assert libraries == ["ld-linux-x86-64", "libc", "libvgpu"]
    assert threads == 1
    assert opened == ["0", "1", "2", "3"]  # 3: the folder that ls reads
    assert syscalls == "+++ exited with 0 +++\n"


def test_an_idle_program_with_cuda_uses_no_processor_time(step: Step) -> None:
    code = """
    start()
    before = time.process_time()
    time.sleep(2)
    answer = time.process_time() - before
    """
    assert step.run(code) < 0.2


def test_without_a_driver_programs_run_and_cuda_says_no_device() -> None:
    code = (
        RUN
        + """
os.rename("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib/x86_64-linux-gnu/cuda.away")
os.rename("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/usr/lib/x86_64-linux-gnu/nvml.away")
try:
    answer = [run("/bin/echo", "hello"), run(sys.executable, "-c", '''
import ctypes
try:
    ctypes.CDLL("libcuda.so.1")
except OSError:
    print("no library")
''')]
finally:
    os.rename("/usr/lib/x86_64-linux-gnu/cuda.away", "/usr/lib/x86_64-linux-gnu/libcuda.so.1")
    os.rename("/usr/lib/x86_64-linux-gnu/nvml.away", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")
"""
    )
    with Step(("1GiB",)) as step:
        assert step.run(code) == [[0, "hello\n", ""], [0, "no library\n", ""]]


# --- users who try ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "env",
    [
        {"LD_PRELOAD": ""},
        {"VGPU_MEMORY": "40GiB", "VGPU_QUOTA": "0", "VGPU_DISABLE": "1"},
        {"CUDA_DEVICE_MEMORY_LIMIT": "40g", "CUDA_DISABLE_CONTROL": "true"},
        {"SLURM_STEP_VGPUS": "0,1,2", "SLURM_JOB_VGPUS": "0,1,2"},
        {"CUDA_VISIBLE_DEVICES": "0,1,2,3"},
        {"CUDA_VISIBLE_DEVICES": "3"},
        {"LD_LIBRARY_PATH": "/tmp", "GLIBC_TUNABLES": "glibc.malloc.check=3"},
    ],
    ids=lambda env: next(iter(env)),
)
def test_no_environment_variable_raises_the_quota_or_opens_another_gpu(
    step: Step, env: dict[str, str]
) -> None:
    code = """
    d.cuInit(0)
    answer = [ok(d.cuDeviceTotalMem(i)) for i in range(d.cuDeviceGetCount()[1] or 0)]
    """
    assert step.run(code, env) in ([GIB], [])  # CUDA_VISIBLE_DEVICES may hide it


def test_an_empty_environment_sheds_nothing(step: Step) -> None:
    code = """
    program = ["env", "-i", sys.executable, "-c", PRELUDE + "start(); say(info()[1])"]
    answer = json.loads(subprocess.check_output(program))
    """
    assert step.run(code) == GIB


def test_the_control_page_cannot_be_written_nor_the_account_cut(step: Step) -> None:
    code = """
    start()
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    control = [m for m in maps if len(m) > 5 and "/control/" in m[5]]
    account = [m for m in maps if len(m) > 5 and "memfd:vgpu-account" in m[5]]
    answer = [[m[1] for m in control], [m[1] for m in account]]
    begin = int(control[0][0].split("-")[0], 16)
    libc = ctypes.CDLL(None, use_errno=True)
    answer.append(libc.mprotect(ctypes.c_void_p(begin), 4096, 3))
    """
    assert step.run(code) == [["r--s"], ["rw-s"], -1]


def test_garbage_in_the_account_hurts_its_writer_only() -> None:
    code = """
    contexts = [start(0), start(1)]
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    begin, end = [int(x, 16) for m in maps if len(m) > 5 and "memfd:vgpu-account" in m[5]
                  for x in m[0].split("-")][:2]
    ctypes.memset(begin, 0xff, end - begin)
    codes = []
    for context in contexts:
        ok(d.cuCtxSetCurrent(context))
        codes.append(code(d.cuMemAlloc(100 * MIB)))
    answer = sorted(codes)
    """
    with Step(("1GiB", "1GiB")) as step:
        assert step.run(code, spoils=True) == [0, 2]
