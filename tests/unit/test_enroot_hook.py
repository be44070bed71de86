"""The enroot hook, run as enroot runs it, with an enroot-mount that notes what it is asked for."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

HOOK = Path(__file__).resolve().parents[2] / "spank/plugin/enroot/50-vgpu.sh.in"


@pytest.fixture
def step(tmp_path: Path) -> Path:
    folder = tmp_path / "step"
    folder.mkdir()
    return folder


def run_hook(tmp_path: Path, step: Path, environ: str) -> tuple[str, str]:
    """What was mounted, and the container's environment after the hook."""
    hook = tmp_path / "hook"
    text = HOOK.read_text().replace("@STEP_DIR@", str(step)).replace("@PKGLIBDIR@", "/lib/vgpu")
    hook.write_text(text)
    mounts = tmp_path / "mounts"
    mounts.touch()
    tool = tmp_path / "enroot-mount"
    tool.write_text(f'#!/bin/sh\n{{ echo "$@"; cat; }} >{mounts}\n')
    tool.chmod(0o755)
    variables = tmp_path / "environ"
    variables.write_text(environ)
    env = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "ENROOT_ROOTFS": "/rootfs",
        "ENROOT_ENVIRON": str(variables),
    }
    subprocess.run(["bash", hook], env=env, check=True, timeout=20)
    return mounts.read_text(), variables.read_text()


def listen(step: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind(str(step / "attach.sock"))
    return server


def test_a_container_of_a_step_with_vgpus_gets_socket_and_shim(tmp_path: Path, step: Path) -> None:
    with listen(step):
        mounts, environ = run_hook(tmp_path, step, "HOME=/root\n")
    options = "bind,ro,nosuid,nodev"
    assert mounts.splitlines() == [
        "--root /rootfs -",
        f"{step} {step} none x-create=dir,{options}",
        f"/lib/vgpu/libvgpu.so /lib/vgpu/libvgpu.so none x-create=file,{options}",
    ]
    assert environ == "HOME=/root\nLD_PRELOAD=/lib/vgpu/libvgpu.so\n"


def test_the_users_own_preload_is_kept_in_a_container(tmp_path: Path, step: Path) -> None:
    with listen(step):
        _, environ = run_hook(tmp_path, step, "LD_PRELOAD=/a.so:/b.so\n")
    assert environ.splitlines()[-1] == "LD_PRELOAD=/lib/vgpu/libvgpu.so:/a.so:/b.so"


def test_a_container_of_a_step_without_vgpus_is_left_alone(tmp_path: Path, step: Path) -> None:
    assert run_hook(tmp_path, step, "HOME=/root\n") == ("", "HOME=/root\n")
