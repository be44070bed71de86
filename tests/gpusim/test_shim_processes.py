"""Many processes on one vGPU: one quota, whatever they do and however they end."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.gpusim.step import GIB, MIB, Step

CONTEXT = MIB  # of this machine, so that many processes fit


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Step]:
    path = tmp_path_factory.mktemp("machines") / "small.machine"
    path.write_text('machine=small context=1MiB\ngpu=0-1 name="Small" memory=4GiB sms=16\n')
    with Step(("1GiB",), machine=str(path)) as step:
        yield step
        assert step.run("answer = stat()['gpus'][0]['peak']") <= GIB


# --- one quota ------------------------------------------------------------------------------------


def test_another_process_sees_what_is_used_and_what_is_left(step: Step) -> None:
    code = """
    start()
    ok(d.cuMemAlloc(600 * MIB))
    answer = child('''
    start()
    say([used(), code(d.cuMemAlloc(500 * MIB)), code(d.cuMemAlloc(400 * MIB))])
    hear()
    ''').hear()
    """
    assert step.run(code) == [600 * MIB + 2 * CONTEXT, 2, 0]


def test_processes_that_race_for_the_last_bytes_never_exceed_the_quota(step: Step) -> None:
    """And together they get all of it: nobody is refused while a fitting amount is free."""
    code = """
    racers = [child('''
    start()
    say("ready")
    while hear():
        taken = fill(d.cuMemAlloc, 10 * MIB)
        say(len(taken))
        hear()
        for pointer in taken:
            ok(d.cuMemFree(pointer))
        say("free")
    ''') for _ in range(8)]
    for racer in racers:
        racer.hear()
    sums = set()
    for _ in range(25):
        for racer in racers:
            racer.say(True)
        sums.add(sum(racer.hear() for racer in racers))
        for racer in racers:
            racer.say()
        for racer in racers:
            racer.hear()
    for racer in racers:
        racer.say(False)
    answer = [sorted(sums), stat()["gpus"][0]["peak"] <= GIB]
    """
    assert step.run(code) == [[(GIB - 8 * CONTEXT) // (10 * MIB)], True]


def test_a_survivor_keeps_its_charge_when_others_come_and_go(step: Step) -> None:
    code = """
    holder = '''
    start()
    say(0)
    while True:
        size = hear()
        if size is None:
            break
        say(code(d.cuMemAlloc(size)))
    '''
    a, b, c = [child(holder) for _ in range(3)]
    for one in (a, b, c):
        one.hear()
    b.end()
    a.say(5 * GIB)
    refused = a.hear()
    c.say(300 * MIB)
    answer = [refused, c.hear()]
    start()
    answer += [used()]
    c.kill()
    while held() > 2 * MIB:
        time.sleep(0.01)
    time.sleep(0.2)
    answer += [used()]
    """
    assert step.run(code) == [2, 0, 300 * MIB + 3 * CONTEXT, 2 * CONTEXT]


def test_two_hundred_processes_start_at_once(step: Step) -> None:
    code = """
    program = f"{PROGRAMS}/hold"
    def run():
        done = subprocess.run([program, "linear", str(MIB), "1"], input="\\n\\n", text=True,
                              capture_output=True)
        results.append([done.returncode, done.stderr, done.stdout.split()[0]])
    results = []
    threads = [threading.Thread(target=run) for _ in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer = [len(results), sorted(set(map(tuple, results)))]
    """
    assert step.run(code) == [200, [[0, "", "1"]]]


# --- fork -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("leave", ["os._exit(0)", "sys.exit(0)", "os.abort()"])
def test_a_child_of_fork_takes_nothing_of_its_parent_with_it(step: Step, leave: str) -> None:
    code = f"""
    start()
    ok(d.cuMemAlloc(100 * MIB))
    before = used()
    pid = os.fork()
    if pid == 0:
        {leave}
    os.waitpid(pid, 0)
    time.sleep(0.2)
    answer = [used() - before, used() - held(), code(d.cuMemAlloc(MIB))]
    """
    assert step.run(code) == [0, 0, 0]


def test_a_child_of_fork_has_a_place_of_its_own_at_its_next_use_of_cuda(step: Step) -> None:
    """While the parent's other threads allocate: whatever they hold then, the child goes on."""
    code = """
    start()
    context = ok(d.cuCtxGetCurrent())
    stop = False
    def churn():
        ok(d.cuCtxSetCurrent(context))
        while not stop:
            ok(d.cuMemFree(ok(d.cuMemAlloc(MIB))))
    threads = [threading.Thread(target=churn) for _ in range(3)]
    for thread in threads:
        thread.start()
    codes = []
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            lib = raw()
            pointer, free, total = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_size_t()
            rc = lib.cuInit(0)
            lib.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(MIB))
            lib.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
            os._exit(0)
        codes.append(os.waitpid(pid, 0)[1])
    stop = True
    for thread in threads:
        thread.join()
    answer = [set(codes) == {0}, used() - held()]
    """
    assert step.run(code) == [True, 0]


def test_exec_begins_anew(step: Step) -> None:
    """The same pid, another program: the charges of the first go with it."""
    code = """
    first = child('''
    start()
    ok(d.cuMemAlloc(500 * MIB))
    say(used())
    hear()
    os.execv(sys.executable, [sys.executable, "-c", PRELUDE + "start(); say(used()); hear()"])
    ''')
    answer = [first.hear()]
    first.say()
    deadline = time.monotonic() + 30
    answer += [first.hear()]
    start()
    while used() > 10 * MIB and time.monotonic() < deadline:
        time.sleep(0.02)
    answer += [used()]
    first.end()
    """
    before, after, other = step.run(code)
    assert (before, other) == (500 * MIB + CONTEXT, 2 * CONTEXT)
    assert after >= CONTEXT


# --- threads --------------------------------------------------------------------------------------


def test_threads_that_take_every_kind_at_once_leave_nothing(step: Step) -> None:
    code = """
    programs = [subprocess.Popen([f"{PROGRAMS}/churn", str(seed), "2", "64"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for seed in range(4)]
    peak = 0
    while any(p.poll() is None for p in programs):
        peak = max(peak, held())
        time.sleep(0.02)
    answer = [[p.returncode for p in programs], [p.stderr.read() for p in programs], peak <= GIB]
    """
    assert step.run(code) == [[0] * 4, [""] * 4, True]


# --- kill -9 --------------------------------------------------------------------------------------


def test_a_dead_process_gives_its_memory_back_to_the_next(step: Step) -> None:
    code = """
    for _ in range(5):
        victim = child("start(); ok(d.cuMemAlloc(900 * MIB)); say(1); hear()")
        victim.hear()
        victim.kill()
        start()
        ok(d.cuMemFree(ok(d.cuMemAlloc(900 * MIB))))
        ok(d.cuDevicePrimaryCtxRelease(0))
    answer = True
    """
    assert step.run(code)


def test_killed_at_any_moment_of_allocating_no_byte_is_lost_or_stuck(step: Step) -> None:
    code = """
    start()
    chance = random.Random(7)
    for seed in range(40):
        victim = subprocess.Popen([f"{PROGRAMS}/churn", str(seed), "0", "16"],
            stdout=subprocess.PIPE, text=True)
        victim.stdout.readline()
        time.sleep(chance.random() * 0.02)
        victim.kill()
        info()
        ok(d.cuMemFree(ok(d.cuMemAlloc(MIB))))
        victim.wait()
    deadline = time.monotonic() + 30
    while used() > MIB and time.monotonic() < deadline:
        time.sleep(0.02)
    answer = [used(), held()]
    """
    assert step.run(code) == [CONTEXT, CONTEXT]


def test_killed_while_it_starts_the_next_one_starts(step: Step) -> None:
    code = """
    chance = random.Random(3)
    for _ in range(60):
        victim = subprocess.Popen([f"{PROGRAMS}/hold", "linear", "1048576", "1"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        time.sleep(chance.random() * 0.006)
        victim.kill()
        victim.wait()
    done = subprocess.run([f"{PROGRAMS}/hold", "linear", "1048576", "1"], input="\\n\\n", text=True,
        capture_output=True)
    answer = [done.returncode, done.stdout.split()[0]]
    """
    assert step.run(code) == [0, "1"]


def test_quota_comes_back_only_when_the_driver_has_let_go(step: Step) -> None:
    code = """
    faults("release 4000ms")
    start()
    victim = child("start(); ok(d.cuMemAlloc(900 * MIB)); say(1); hear()")
    victim.hear()
    victim.kill()
    early = [code(d.cuMemAlloc(900 * MIB)), used() > 900 * MIB, held() > 900 * MIB]
    while held() > 900 * MIB:
        time.sleep(0.005)
    released = time.monotonic()
    while used() > 900 * MIB and time.monotonic() < released + 30:
        time.sleep(0.002)
    answer = [early, code(d.cuMemAlloc(900 * MIB))]
    """
    assert step.run(code) == [[2, True, True], 0]


# --- manners --------------------------------------------------------------------------------------


def test_signals_umask_and_output_are_the_programs_own(step: Step) -> None:
    code = """
    got = []
    signal.signal(signal.SIGUSR1, lambda number, frame: got.append(number))
    os.umask(0o027)
    before = [signal.getsignal(number) for number in range(1, 32) if number not in (9, 19)]
    start()
    ok(d.cuMemAlloc(MIB))
    os.kill(os.getpid(), signal.SIGUSR1)
    after = [signal.getsignal(number) for number in range(1, 32) if number not in (9, 19)]
    status = Path("/proc/self/status").read_text()
    masks = [line for line in status.splitlines() if line.startswith(("SigBlk", "SigIgn"))]
    answer = [got, os.umask(0), before == after, masks[0].split()[1]]
    """
    assert step.run(code) == [[10], 0o027, True, "0" * 16]


def test_a_program_that_closes_all_its_descriptors_goes_on(step: Step) -> None:
    code = """
    start()
    os.closerange(3, 200)
    mine = os.open("/dev/null", os.O_RDWR)  # may well get a number that was ours
    os.write(mine, b"x")
    context = ok(d.cuCtxCreate(None, 0, 0))  # asks vgpud
    answer = [used() == held(), code(d.cuMemAlloc(MIB)), os.fstat(mine).st_rdev]
    """
    null = (1 << 8) | 3
    assert step.run(code) == [True, 0, null]


def test_nothing_of_ours_is_inherited_by_programs_that_it_starts(step: Step) -> None:
    code = """
    start()
    shown = subprocess.check_output(["ls", "-l", "/proc/self/fd"], text=True, close_fds=False)
    answer = [line for line in shown.splitlines() if "socket" in line or "memfd" in line]
    """
    assert step.run(code) == []


# --- vgpud ----------------------------------------------------------------------------------------

VGPUD = """
import select, socket

class Vgpud:
    "The vgpud that runs, to be killed and to be started again as it was."
    def __init__(self):
        self.pid = int(subprocess.check_output(["pgrep", "-x", "vgpud"], text=True).split()[0])
        self.command = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(bytes(1))[:-1]
    def kill(self):
        gone = os.pidfd_open(self.pid)
        os.kill(self.pid, 9)
        select.select([gone], [], [])
        os.close(gone)
    def start(self):
        log = open("/run/gpusim-logs/gpusim/vgpud.log", "a")
        node = ["nsenter", "--target=1", "--mount", "--"]  # outside the step, without shim
        subprocess.Popen(node + self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                         start_new_session=True)
        for _ in range(500):
            try:
                return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(
                    "/run/vgpu/vgpud.sock")
            except OSError:
                time.sleep(0.02)
"""


def test_a_running_program_does_not_notice_that_vgpud_is_killed_and_comes_back(step: Step) -> None:
    code = (
        VGPUD
        + """
start()
kept = ok(d.cuMemAlloc(100 * MIB))
vgpud = Vgpud()
vgpud.kill()
codes = [code(d.cuMemAlloc(100 * MIB)), code(d.cuMemFree(kept)), code(d.cuMemAlloc(2 * GIB))]
vgpud.start()
late = child("start(); say(used()); hear()")
codes += [late.hear() - 100 * MIB]
late.kill()
while used() > 101 * MIB:
    time.sleep(0.01)
answer = [codes, used(), held(), code(d.cuCtxCreate(None, 0, 0))]
"""
    )
    expected = [[0, 0, 2, 2 * CONTEXT], 100 * MIB + CONTEXT, 100 * MIB + CONTEXT, 0]
    assert step.run(code) == expected


def test_without_vgpud_the_first_call_waits_for_it_and_fails_with_one_sentence() -> None:
    with Step(("1GiB",)) as step:
        code = (
            VGPUD
            + """
vgpud = Vgpud()
vgpud.kill()
before = time.monotonic()
done = subprocess.run([sys.executable, "-c", PRELUDE + '''
say([code(d.cuInit(0)), code(d.cuInit(0)), code(d.cuMemAlloc(5)), code(d.cuMemGetInfo())])
try:
    n.nvmlInit()
except n.NVMLError as error:
    say(error.value)
'''], capture_output=True, text=True)
took = time.monotonic() - before
vgpud.start()
say([done.stdout.split("\\n"), done.stderr, took > 4])
time.sleep(0.5)
"""
        )
        returncode, output, errors = step.outcome(code)
        assert (returncode, errors) == (0, "")
        said, sentence, patient = json.loads(output)
        assert json.loads(said[0]) == [802] * 4
        assert json.loads(said[1]) == 27
        assert sentence.count("\n") == 1
        assert sentence.startswith("slurm-vgpu: vgpud on slurm-vgpu does not answer")
        assert patient
