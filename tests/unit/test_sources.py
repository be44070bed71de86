"""What is read of nodes' hardware, and the first plan that is made of it."""

import doctest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from gres import first_plan, planfile
from gres.plan import Nvlink
from gres.sources import cards, collected, cpus, live
from gres.sources.machine import Gpu, Machine, SourceError
from pysched.cli.main import main
from tests.unit.nvidia_smi import SmiGpu, query

TOPO = Path(__file__).parents[1] / "data" / "topo"
PAIRS = (TOPO / "a100_pcie_4gpu_bridge_pairs.txt").read_text()
SLURMD = (
    "NodeName=x CPUs=208 Boards=1 SocketsPerBoard=2 CoresPerSocket=52 ThreadsPerCore=2 "
    "RealMemory=1031234\n"
)


# --- collected files ------------------------------------------------------------------------------


def collect(folder: Path, node: str, **texts: str) -> None:
    for suffix, text in texts.items():
        (folder / f"{node}.{suffix}").write_text(text)


def test_that_the_texts_of_a_node_make_one_machine(tmp_path: Path) -> None:
    collect(tmp_path, "n1", xml=query([SmiGpu()] * 4), topo=PAIRS, slurmd=SLURMD)
    (machine,) = collected.read(tmp_path)
    assert (machine.node, machine.driver) == ("n1", "580.65.06")
    assert machine.nvlink == Nvlink(pairs=((0, 1, 12), (2, 3, 12)))
    assert machine.slurm["CoresPerSocket"] == "52"
    assert [(gpu.minor, gpu.memory >> 20, gpu.sms) for gpu in machine.gpus] == [
        (minor, 40960, 108) for minor in range(4)
    ]
    assert machine.cpus is not None
    assert machine.cpus.cores(machine.gpus[3].cpus) == tuple(range(52, 104))


def test_that_links_are_between_minor_numbers_not_places(tmp_path: Path) -> None:
    collect(tmp_path, "n1", xml=query([SmiGpu()] * 4, minors=[3, 1, 2, 0]), topo=PAIRS)
    (machine,) = collected.read(tmp_path)
    assert machine.nvlink == Nvlink(pairs=((0, 2, 12), (1, 3, 12)))


def test_that_modes_of_a_gpu_are_read(tmp_path: Path) -> None:
    gpu = SmiGpu(mig="Enabled", persistence="Disabled", compute_mode="Exclusive_Process")
    collect(tmp_path, "n1", xml=query([gpu]))
    (machine,) = collected.read(tmp_path)
    found = machine.gpus[0]
    assert (found.mig, found.persistence, found.compute_mode) == (True, False, "exclusive-process")


def test_that_nodes_come_in_natural_order(tmp_path: Path) -> None:
    for node in ("n10", "n2", "n1"):
        collect(tmp_path, node, xml=query([SmiGpu()]))
    assert [machine.node for machine in collected.read(tmp_path)] == ["n1", "n2", "n10"]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"xml": "<?xml version='1.0'?><nvidia_smi_log><gpu>"}, "n1.xml:1:"),
        ({"xml": "<?xml version='1.0'?><nvidia_smi_log/>"}, "no <gpu> in it"),
        ({"xml": query([SmiGpu()]).replace("40960 MiB", "N/A")}, "GPU 0 has no product_name"),
        ({"xml": query([SmiGpu()]).replace("minor_number", "minor")}, "GPU 0 has no"),
        ({"xml": query([SmiGpu()] * 2), "topo": PAIRS}, "2 GPUs, but 4 in nvidia-smi topo -m"),
        ({"topo": PAIRS}, "no nvidia-smi -q -x of node n1"),
        ({"txt": "hello\n"}, "n1.txt: expected the output of nvidia-smi -q -x or topo -m"),
        ({"xml": query([SmiGpu()] * 4), "topo": PAIRS.replace("NV12", "NV1", 1)}, "n1.topo:4:"),
        ({}, "no files"),
    ],
)
def test_that_a_text_that_is_damaged_is_named(
    texts: dict[str, str], words: str, tmp_path: Path
) -> None:
    collect(tmp_path, "n1", **texts)
    with pytest.raises(SourceError) as caught:
        collected.read(tmp_path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


# --- CPUs -----------------------------------------------------------------------------------------


def lscpu(rows: list[tuple[int, int, int]]) -> str:
    return "# CPU,Core,Socket\n" + "".join(f"{cpu},{core},{socket}\n" for cpu, core, socket in rows)


@pytest.mark.parametrize(
    ("rows", "cpus_of_gpu", "expected"),
    [
        # 2 sockets x 2 cores x 2 threads; second threads after all first ones
        ([(i, i % 4, i % 4 // 2) for i in range(8)], {2, 3, 6, 7}, (2, 3)),
        # sockets alternate from CPU to CPU
        ([(i, i // 2, i % 2) for i in range(8)], {1, 3, 5, 7}, (4, 5, 6, 7)),
        # core numbers repeat on each socket, with a gap
        ([(0, 0, 0), (1, 8, 0), (2, 0, 1), (3, 8, 1)], {2, 3}, (2, 3)),
        # half a socket
        ([(i, i, 0) for i in range(4)], {2, 3}, (2, 3)),
    ],
)
def test_that_cores_are_numbered_as_slurm_does(
    rows: list[tuple[int, int, int]], cpus_of_gpu: set[int], expected: tuple[int, ...]
) -> None:
    found = cpus.from_lscpu(lscpu(rows))
    assert found is not None
    assert found.cores(frozenset(cpus_of_gpu)) == expected


def test_that_cores_are_not_guessed_where_cpus_are_not_known() -> None:
    found = cpus.from_lscpu(lscpu([(0, 0, 0)]))
    assert found is not None
    assert found.cores(frozenset({0, 1})) is None
    assert cpus.from_lscpu("") is None


def test_that_sockets_are_not_guessed_from_half_of_them() -> None:
    slurm = {"SocketsPerBoard": "2", "CoresPerSocket": "2", "CPUs": "4"}
    both, one = [frozenset({0, 1}), frozenset({2, 3})], [frozenset({0, 1})]
    assert cpus.from_affinities(both, slurm) is not None
    assert cpus.from_affinities(one, slurm) is None
    assert cpus.from_affinities(both, {}) is None
    assert cpus.from_affinities([frozenset({0, 1}), frozenset({1, 2, 3})], slurm) is None


# --- NVML -----------------------------------------------------------------------------------------


class FakeNvml:
    """As much of pynvml as is asked: two A100 without links, the second in MIG mode."""

    NVML_DEVICE_MIG_ENABLE = 1
    NVML_COMPUTEMODE_DEFAULT, NVML_COMPUTEMODE_PROHIBITED = 0, 2
    NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3
    NVML_NVLINK_MAX_LINKS = 0
    NVML_AFFINITY_SCOPE_NODE = 0
    nvmlMemory_v2 = 2

    class NVMLError(Exception):
        pass

    def __getattr__(self, name: str) -> Any:
        def refuse(*_: object) -> None:
            raise self.NVMLError(f"{name}: Not Supported")

        answers: dict[str, Any] = {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlDeviceGetCount": lambda: 2,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetPciInfo": lambda h: SimpleNamespace(domain=0, bus=h, device=0),
            "nvmlSystemGetDriverVersion": lambda: "580.65.06",
            "nvmlDeviceGetName": lambda h: "A100 MIG 1g.5gb" if h == "mig" else "NVIDIA A100",
            "nvmlDeviceGetMinorNumber": lambda h: 1 - h,
            "nvmlDeviceGetMemoryInfo": lambda *_: SimpleNamespace(total=40 << 30, reserved=5 << 20),
            "nvmlDeviceGetCudaComputeCapability": lambda h: (8, 0),
            "nvmlDeviceGetNumGpuCores": lambda h: 6912,
            "nvmlDeviceGetMigMode": lambda h: [h, h],
            "nvmlDeviceGetMaxMigDeviceCount": lambda h: 7,
            "nvmlDeviceGetMigDeviceHandleByIndex": lambda h, i: "mig" if i == 0 else refuse(),
            "nvmlDeviceGetGpuInstanceId": lambda h: 9,
            "nvmlDeviceGetCpuAffinity": lambda h, n: [0b11],
        }  # fmt: skip
        return answers.get(name, refuse)


def test_that_nvml_is_asked_for_everything_and_may_refuse_most() -> None:
    machine = live.read("n1", FakeNvml())
    assert [(gpu.minor, gpu.sms, gpu.mig) for gpu in machine.gpus] == [
        (1, 108, False),
        (0, 108, True),
    ]
    assert machine.gpus[1].instances == (("1g.5gb", 9),)
    assert machine.gpus[0].cpus == {0, 1}
    assert (machine.gpus[0].reserved, machine.gpus[0].persistence) == (5 << 20, None)


def test_that_a_node_without_nvml_is_one_sentence() -> None:
    nvml = FakeNvml()
    nvml.nvmlInit = lambda: (_ for _ in ()).throw(nvml.NVMLError("Driver Not Loaded"))  # type: ignore[attr-defined]
    with pytest.raises(
        SourceError, match="does not say what GPUs this node has: Driver Not Loaded"
    ):
        live.read("n1", nvml)


def test_that_slurmd_says_what_stands_on_a_nodename_line() -> None:
    assert live.parse_slurmd(SLURMD + "UpTime=0-01:00:00\n") == {
        "CPUs": "208",
        "Boards": "1",
        "SocketsPerBoard": "2",
        "CoresPerSocket": "52",
        "ThreadsPerCore": "2",
        "RealMemory": "1031234",
    }
    assert live.parse_slurmd("") == {}


# --- cards ----------------------------------------------------------------------------------------


def test_that_the_examples_in_docstrings_are_true() -> None:
    failed, tried = doctest.testmod(cards)
    assert (failed, tried > 0) == (0, True)


@pytest.mark.parametrize(
    ("product", "sms", "name"),
    [
        ("NVIDIA L40S", 142, "l40s"),
        ("NVIDIA L4", 58, "l4"),
        ("NVIDIA H100 80GB HBM3", 132, "h100-80gb-hbm3"),
        ("NVIDIA H100 PCIe", 114, "h100-pcie"),
        ("NVIDIA GeForce RTX 3090", 82, "rtx-3090"),
        ("NVIDIA RTX 6000 Ada Generation", 142, "rtx-6000-ada-generation"),
        ("Quadro RTX 6000", 72, "rtx-6000"),
        ("1080 (engineering sample)", None, "gpu-1080-engineering-sample"),
    ],
)
def test_that_a_card_is_known_by_its_name(product: str, sms: int | None, name: str) -> None:
    assert (cards.sms(product), cards.plan_name(product)) == (sms, name)


# --- the first plan -------------------------------------------------------------------------------


def machines(folder: Path) -> list[Machine]:
    for node in ("n1", "n2", "n10"):
        collect(folder, node, xml=query([SmiGpu()] * 4), topo=PAIRS, slurmd=SLURMD)
    collect(folder, "t1", xml=query([SmiGpu("Tesla T4", 15360, 440)]))
    return collected.read(folder)


def test_that_a_first_plan_is_a_plan(tmp_path: Path) -> None:
    plan = planfile.parse(first_plan.write(machines(tmp_path), 4).encode())
    assert [node_set.names for node_set in plan.nodes] == [("n1", "n2", "n10"), ("t1",)]
    assert {t.name: (t.memory >> 30, t.sms, t.max_sms) for t in plan.types.values()} == {
        "a100-pcie-40gb-9g": (9, 27, 108),
        "t4-3g": (3, 10, 40),
    }
    first = plan.nodes[0]
    assert [gpus.minors for gpus in first.gpus] == [(0, 1), (2, 3)]
    assert [gpus.cores[0] for gpus in first.gpus] == [0, 52]
    assert dict(first.slurm)["RealMemory"] == "1031000"


def test_that_nodes_that_report_a_little_less_memory_are_alike(tmp_path: Path) -> None:
    collect(tmp_path, "n1", xml=query([SmiGpu()]), slurmd="NodeName=n1 CPUs=2 RealMemory=64123\n")
    collect(tmp_path, "n2", xml=query([SmiGpu()]), slurmd="NodeName=n2 CPUs=2 RealMemory=64987\n")
    plan = planfile.parse(first_plan.write(collected.read(tmp_path), 4).encode())
    assert len(plan.nodes) == 1


@pytest.mark.parametrize("name", sorted(path.name for path in TOPO.glob("*8gpu*.txt")))
def test_that_every_topology_makes_a_plan(name: str, tmp_path: Path) -> None:
    collect(tmp_path, "n1", xml=query([SmiGpu()] * 8), topo=(TOPO / name).read_text())
    plan = planfile.parse(first_plan.write(collected.read(tmp_path), 2).encode())
    assert sum(len(gpus.minors) for gpus in plan.nodes[0].gpus) == 8


def test_that_what_is_not_known_must_be_filled_in() -> None:
    unknown = Gpu(0, "NVIDIA Unknown 9000", memory=8 << 30)
    text = first_plan.write([Machine("n1", "a test", (unknown,))], 4)
    assert "# Its SMs are not known here" in text
    with pytest.raises(
        planfile.PlanError, match=r'sms: expected a whole number .*, found "unknown"'
    ):
        planfile.parse(text.encode())


def test_that_cards_of_one_product_with_different_memory_have_two_names() -> None:
    gpus = tuple(Gpu(n, "NVIDIA A100", memory=m << 30, sms=108) for n, m in ((0, 40), (1, 80)))
    plan = planfile.parse(first_plan.write([Machine("n1", "a test", gpus)], 4).encode())
    assert sorted(plan.types) == ["a100-10g", "a100-2-20g"]


def test_that_mig_instances_are_taken_as_they_are() -> None:
    gpu = Gpu(0, "NVIDIA A100", memory=40 << 30, sms=108, mig=True)
    named = Gpu(1, "NVIDIA A100", memory=40 << 30, sms=108, mig=True, instances=(("1g.5gb", 7),))
    plan = planfile.parse(first_plan.write([Machine("n1", "a test", (named,))], 4).encode())
    assert plan.nodes[0].gpus[0].mig == (("1g.5gb", (7,)),)
    text = first_plan.write([Machine("n1", "a test", (gpu,))], 4)
    assert "in MIG mode: write its instances here" in text


# --- the command ----------------------------------------------------------------------------------


def test_that_the_plan_is_printed_or_written_but_replaces_none(tmp_path: Path) -> None:
    folder, output = tmp_path / "collected", tmp_path / "plan.yaml"
    folder.mkdir()
    machines(folder)
    arguments = ["config", "init", "--from", str(folder)]
    printed = CliRunner().invoke(main, arguments)
    assert (printed.exit_code, printed.stdout.startswith("# A first plan")) == (0, True)
    assert CliRunner().invoke(main, [*arguments, "-o", str(output)]).exit_code == 0
    assert output.read_text() == printed.stdout
    again = CliRunner().invoke(main, [*arguments, "-o", str(output)])
    assert (again.exit_code, "is there already" in again.stderr) == (2, True)
