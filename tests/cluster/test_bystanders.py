"""Programs that have nothing to do with GPUs run in a job as they run outside of it."""

import ast

import pytest

from tests.cluster.running import PROGRAMS, RunningCluster
from tests.sandbox.paths import LIBDIR

SHIM = str(LIBDIR / "slurm-vgpu" / "libvgpu.so")

SCRIPTS = {
    "true": "/bin/true",
    "false": "/bin/false",
    "python": "/usr/bin/python3 -c 'import sys, json; print(sys.version, sorted(sys.modules))'",
    "setuid program": "passwd -S; umount /; echo $?",
    "static binary": f"{PROGRAMS}/static",
    "shell that forks 1000 times": "for i in $(seq 1000); do (exit 3); done; echo $?",
    "pipeline": "seq 100000 | sort -rn | tail -1",
    "error output": "ls /no/such/file",
    "killed by a signal": "python3 -c 'import subprocess; print(subprocess.call("
    """["sh", "-c", "kill -9 $$"]))'""",
    "empty environment": "env -i /bin/sh -c 'env; echo done'",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_program_without_cuda_does_the_same(cluster: RunningCluster, name: str) -> None:
    command = ("/bin/bash", "-c", SCRIPTS[name])
    native = cluster.run(*command, user="alice")
    within = cluster.srun("--gres=vgpu:1", *command)
    assert (within.returncode, within.stdout) == (native.returncode, native.stdout)
    ours = [line for line in within.stderr.splitlines() if not line.startswith("srun: error: ")]
    assert ours == native.stderr.splitlines()


# What is mapped, which descriptors are open, how many threads there are, after a while.
SELF = """
import os, time
time.sleep(0.2)
files = {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}
print([sorted(files), sorted(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))])
"""


def test_nothing_of_ours_is_in_such_a_process_but_the_mapped_shim(cluster: RunningCluster) -> None:
    command = ("/usr/bin/python3", "-c", SELF)
    native, within = (
        ast.literal_eval(cluster.srun(f"--gres={gres}", *command).stdout)
        for gres in ("none", "vgpu:1")
    )
    assert sorted(set(within[0]) - set(native[0])) == [SHIM]
    assert within[1:] == native[1:]
