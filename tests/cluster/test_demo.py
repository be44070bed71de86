"""`make demo` shows what it promises, also when it runs twice at the same time."""

import subprocess
from pathlib import Path

DEMO = Path(__file__).resolve().parents[1] / "demo" / "run"


def test_two_demonstrations_side_by_side_show_the_same() -> None:
    started = [
        subprocess.Popen([DEMO], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    first, second = (process.communicate(timeout=120) for process in started)
    assert [process.returncode for process in started] == [0, 0], first + second
    assert first == second
    shown = first[0]
    assert "CUDA sees 2 devices" in shown
    assert "the next one: CUDA_ERROR_OUT_OF_MEMORY" in shown
    assert "CUDA_ERROR_NO_DEVICE" in shown
