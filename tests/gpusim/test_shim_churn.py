"""Eight processes take and give back memory of every kind and are killed at random: a wall."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpusim.step import MIB, Step

QUOTA = 203 * MIB


@pytest.mark.parametrize("seconds", [20, pytest.param(600, marks=pytest.mark.soak)])
@pytest.mark.timeout(800)
def test_never_above_the_quota_and_nothing_left(tmp_path: Path, seconds: int) -> None:
    """The simulator's high-water mark sees every instant; its count and the account end at 0."""
    code = f"""
    def start_one():
        return subprocess.Popen([f"{{PROGRAMS}}/churn", str(chance.getrandbits(30)), "0", "24"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    chance = random.Random(5)
    programs = [start_one() for _ in range(8)]
    killed, fell = 0, []
    deadline = time.monotonic() + {seconds}
    while time.monotonic() < deadline:
        time.sleep(chance.random() * 0.2)
        i = chance.randrange(8)
        if programs[i].poll() is not None:
            fell.append(programs[i].stderr.read().strip())
        programs[i].kill()
        programs[i].wait()
        killed += 1
        programs[i] = start_one()
    for program in programs:
        program.kill()
        program.wait()
    # With the quota taken, a new process has no room for its context.
    fell = [why for why in fell if why != "start CUDA: CUDA_ERROR_OUT_OF_MEMORY"]
    gpu = stat()["gpus"][0]
    answer = [killed > {seconds}, fell, gpu["peak"] <= {QUOTA}, gpu["peak"] > {QUOTA} // 2]
    """
    machine = tmp_path / "small.machine"
    machine.write_text('machine=small context=1MiB\ngpu=0 name="Small" memory=2GiB sms=16\n')
    with Step(("203MiB",), machine=str(machine)) as step:
        assert step.run(code) == [True, [], True, True]
