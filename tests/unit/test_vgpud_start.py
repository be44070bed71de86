"""vgpud's start: what it needs, and what it says when that is not there."""

import socket
import subprocess
from pathlib import Path

import pytest

from tests.unit.vgpud_node import GIB, Node, conf_text, running_node, uuid_of


def start(folder: Path, *options: str, nvml: bool = True, conf: str = "") -> tuple[int, str]:
    """Run a vgpud that is expected to end by itself; exit code and what it said."""
    node = Node(folder, conf=conf or conf_text(uuids=False), nvml=nvml)
    done = subprocess.run(
        node.command(*options),
        env=node.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


def driver(folder: Path, *gpus: str) -> None:
    (folder / "nvml").mkdir()
    (folder / "nvml/gpus").write_text("".join(f"{gpu} {8 * GIB}\n" for gpu in gpus))


def gpu(minor: int, uuid: str = "") -> str:
    return f"{minor} {uuid or uuid_of(minor)} 0000{minor:04x}:01:00.0"


def test_without_a_driver_and_stated_uuids_it_says_what_to_do(built: None, tmp_path: Path) -> None:
    code, said = start(tmp_path, nvml=False)
    assert code == 1
    assert said.startswith("vgpud: NVML is not there: libnvidia-ml.so.1: cannot open")
    assert said.endswith(
        "and vgpu.conf states no UUID= for GPU=0 of node n1: "
        "start vgpud again when the driver is there\n"
    )


def test_without_a_driver_stated_uuids_suffice(built: None) -> None:
    with running_node(nvml=False) as node:
        step = node.client.bind(7, 0, 1000, [1])
        assert step.vgpus[0].gpu_uuid == uuid_of(1)
        assert "links are not known" in node.log
        assert next(node.client.bindings()).driver is None


def test_a_driver_that_does_not_answer_is_waited_for_by_whoever_starts_vgpud(
    built: None, tmp_path: Path
) -> None:
    code, said = start(tmp_path)
    assert (code, said) == (
        1,
        "vgpud: NVML does not start: Driver Not Loaded: "
        "start vgpud again when the driver answers\n",
    )


def test_a_gpu_that_is_not_there_is_named(built: None, tmp_path: Path) -> None:
    driver(tmp_path, gpu(0))
    assert start(tmp_path) == (
        1,
        "vgpud: vgpu.conf gives node n1 a GPU=1, "
        "but NVML lists no GPU of that minor number among its 1\n",
    )


def test_a_gpu_that_is_another_one_is_named(built: None, tmp_path: Path) -> None:
    driver(tmp_path, gpu(0), gpu(1, uuid_of(7)))
    assert start(tmp_path, conf=conf_text()) == (
        1,
        f"vgpud: GPU=1 of node n1 is {uuid_of(7)}, but vgpu.conf states UUID={uuid_of(1)}\n",
    )


def test_gpus_are_found_by_minor_number_whatever_nvml_calls_them(built: None) -> None:
    with running_node(conf=conf_text(uuids=False)) as node:
        node.kill()
        (node.folder / "nvml/gpus").write_text(f"{gpu(1)} {8 * GIB}\n{gpu(0)} {8 * GIB}\n")
        node.start()
        assert [vgpu.gpu_uuid for vgpu in node.client.bind(7, 0, 0, [0, 1]).vgpus] == [
            uuid_of(0),
            uuid_of(1),
        ]


def test_a_card_with_less_memory_than_stated_is_a_warning(built: None) -> None:
    with running_node(conf=conf_text(uuids=False)) as node:
        node.kill()
        (node.folder / "nvml/gpus").write_text(f"{gpu(0)} {4 * GIB}\n{gpu(1)} {8 * GIB}\n")
        node.start()
        assert (
            "GPU=0: vgpu.conf gives out more memory (8192 MiB) than the card has (4096 MiB)"
            in node.log
        )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--colour"], "unrecognized option '--colour'"),
        (["now"], 'vgpud: "now" is not an option; see vgpud --help'),
        (["--runtime-dir", "/" + "x" * 200], "vgpud: --runtime-dir is longer than 127 bytes"),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_code_2(
    built: None, tmp_path: Path, options: list[str], sentence: str
) -> None:
    code, said = start(tmp_path, *options)
    assert code == 2
    assert said.strip().endswith(sentence)


def test_a_broken_vgpu_conf_is_named_with_its_line(built: None, tmp_path: Path) -> None:
    code, said = start(tmp_path, conf="Version=1\nType=x\n")
    assert (code, said) == (1, f"vgpud: {tmp_path}/vgpu.conf:2: a Type= line needs Memory=\n")


def test_a_node_without_vgpus_runs_without_a_driver(built: None) -> None:
    with running_node(nvml=False, conf="Version=1\n") as node:
        assert "node n1: 0 slots on 0 GPUs" in node.log


def test_the_runtime_directory_may_name_the_node(built: None, tmp_path: Path) -> None:
    node = Node(tmp_path, conf="Version=1\n", nvml=False)
    command = [*node.command(), "--runtime-dir", str(tmp_path / "%n/x%n")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as vgpud:
        assert vgpud.stderr
        assert vgpud.stderr.readline().endswith(f"ready at {tmp_path}/n1/xn1/vgpud.sock\n")
        vgpud.terminate()


def test_systemd_is_told_that_it_is_ready_and_alive_and_lines_have_priorities(
    built: None, tmp_path: Path
) -> None:
    node = Node(tmp_path, conf="Version=1\n", nvml=False)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(30)
        env = {
            "NOTIFY_SOCKET": str(tmp_path / "notify"),
            "WATCHDOG_USEC": "20000",
            "JOURNAL_STREAM": "8:1",
        }
        with subprocess.Popen(node.command(), env=env, stderr=subprocess.PIPE, text=True) as vgpud:
            told = {systemd.recv(100) for _ in range(4)}
            vgpud.terminate()
            assert vgpud.stderr
            assert vgpud.stderr.readline().startswith("<6>node n1: 0 slots")
    assert told == {b"READY=1", b"WATCHDOG=1"}


def test_help_and_version_are_printed(built: None) -> None:
    vgpud = Node(Path("/nonexistent")).program
    for option, begin in (("--help", "Usage: vgpud"), ("--version", "vgpud, protocol 1.")):
        done = subprocess.run(
            [Path("build") / vgpud, option], capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stdout.startswith(begin)
