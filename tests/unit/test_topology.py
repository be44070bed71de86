"""Claims about the topology model, its reader of NVML and the report string."""

import random
from itertools import combinations, product
from pathlib import Path as FilePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysched.topology import Gpu, Link, Nic, Path, Topology, TopologyError, nvml, rates, report, smi
from pysched.topology.model import numbers, to_ranges
from pysched.topology.rates import Rates
from tests.unit.fake_nvml import FakeNvml
from tests.unit.topo_expected import FOLDER, MACHINES

NO_CPUINFO = FilePath("/nonexistent")
DGX1 = smi.read((FOLDER / "dgx1_v100_4nic.txt").read_text())


# --- bandwidths -----------------------------------------------------------------------------------


def test_that_a_bond_has_its_links_times_the_rate_of_their_generation() -> None:
    assert (DGX1.bandwidth(0, 3), DGX1.bandwidth(0, 1)) == (40.0, 20.0)


def test_that_the_weaker_end_decides() -> None:
    gpus = (Gpu(Rates(20.0, 24.0)), Gpu(Rates(12.0, 12.0)))
    assert Topology(gpus, (Link(4, Path.SYS),)).bandwidth(0, 1) == 48.0
    assert Topology(gpus, (Link(0, Path.PIX),)).bandwidth(0, 1) == 12.0


def test_that_a_closer_path_over_pcie_never_has_less() -> None:
    for pcie, socket in product((12.0, 24.0, 48.0), (6.0, 12.0, 40.0)):
        gpus = (Gpu(Rates(20.0, pcie)),) * 2
        found = [Topology(gpus, (Link(path=path),), socket=socket).bandwidth(0, 1) for path in Path]
        assert found == sorted(found, reverse=True)


def test_that_a_single_slow_bond_does_not_hide_a_faster_path() -> None:
    gpus = (Gpu(Rates(12.0, 24.0)),) * 2
    assert Topology(gpus, (Link(1, Path.PIX),)).bandwidth(0, 1) == 24.0


def test_that_the_graph_carries_every_bandwidth() -> None:
    assert {
        (one, other): data["bandwidth"] for one, other, data in DGX1.graph.edges(data=True)
    } == {pair: DGX1.bandwidth(*pair) for pair in combinations(range(8), 2)}


def test_that_linked_sets_are_the_cliques_of_nvlink() -> None:
    assert [0, 1, 2, 3] in DGX1.linked_sets() and [0, 4] in DGX1.linked_sets()
    assert max(map(len, DGX1.linked_sets())) == 4


@pytest.mark.parametrize(
    ("cpuinfo", "rate"),
    [
        ("vendor_id\t: AuthenticAMD\ncpu family\t: 25\n", 16.0),
        ("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 79\n", 6.0),
        ("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n", 22.0),
        ("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 1\n", 12.0),
        ("cpu\t\t: POWER9, altivec supported\n", 32.0),
        ("", 12.0),
    ],
)
def test_that_the_rate_between_sockets_is_the_processors(cpuinfo: str, rate: float) -> None:
    assert rates.socket_rate(cpuinfo) == rate


@given(st.sets(st.integers(0, 400)))
def test_that_ranges_keep_every_number(singles: set[int]) -> None:
    assert numbers(to_ranges(singles)) == singles


# --- NVML -----------------------------------------------------------------------------------------


def read(fake: FakeNvml) -> Topology:
    topology = nvml.read(fake, NO_CPUINFO)
    assert fake.open_sessions == 0
    return topology


def test_that_bridged_pairs_are_counted_by_peer() -> None:
    topology = read(FakeNvml(bonds={(0, 1): 12, (2, 3): 12}, numa=(0, 0, 1, 1)))
    assert topology.link(0, 1) == Link(12, Path.SYS)
    assert topology.link(0, 2) == Link(0, Path.SYS)
    assert [gpu.numa for gpu in topology.gpus] == [((0, 0),)] * 2 + [((1, 1),)] * 2
    assert [gpu.cpus for gpu in topology.gpus] == [((0, 15),)] * 2 + [((16, 31),)] * 2
    assert topology.gpus[0].name == "A100-PCIE-40GB"
    assert not topology.switch


def test_that_links_into_a_switch_join_every_pair() -> None:
    topology = read(FakeNvml(gpus=8, switch=12))
    assert {topology.link(*pair).nvlinks for pair in combinations(range(8), 2)} == {12}
    assert topology.switch


def test_that_ends_which_disagree_count_what_both_confirm() -> None:
    assert read(FakeNvml(bonds={(0, 1): 4}, one_sided=True)).link(0, 1).nvlinks == 3


@pytest.mark.parametrize(
    ("version", "capability", "rate"),
    [(1, (6, 0), 18.0), (3, (7, 0), 20.0), (5, (8, 0), 20.0), (5, (8, 6), 12.0), (6, (9, 0), 20.6)],
)
def test_that_the_rate_is_the_generations(
    version: int, capability: tuple[int, int], rate: float
) -> None:
    fake = FakeNvml(bonds={(0, 1): 1}, version=version, capability=capability)
    assert read(fake).gpus[0].rates.nvlink == rate


def test_that_minors_are_not_taken_for_indices() -> None:
    assert [gpu.minor for gpu in read(FakeNvml(minors=(3, 2, 1, 0))).gpus] == [3, 2, 1, 0]


OPTIONAL = (
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetName",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetTopologyCommonAncestor",
    "nvmlDeviceGetMemoryAffinity",
    "nvmlDeviceGetCpuAffinity",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkVersion",
    "nvmlDeviceGetNvLinkRemoteDeviceType",
    "nvmlDeviceGetNvLinkRemotePciInfo",
)


@pytest.mark.parametrize("name", OPTIONAL)
def test_that_a_driver_without_it_still_has_a_topology(name: str) -> None:
    topology = read(FakeNvml(bonds={(0, 1): 12}, missing=frozenset({name})))
    assert len(topology) == 4
    assert all(topology.bandwidth(*pair) > 0 for pair in combinations(range(4), 2))


@pytest.mark.parametrize("name", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"])
def test_that_without_it_the_error_is_one_sentence(name: str) -> None:
    with pytest.raises(nvml.NvmlError, match="NVML does not say what GPUs this node has: Not Supp"):
        nvml.read(FakeNvml(missing=frozenset({name})), NO_CPUINFO)


# --- the report -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MACHINES)
def test_that_the_report_of_a_file_reads_back(name: str) -> None:
    topology = smi.read((FOLDER / name).read_text())
    assert report.read(report.write(topology)) == topology


def test_that_the_report_of_nvml_reads_back() -> None:
    for fake in (FakeNvml(bonds={(0, 1): 12}, numa=(0, 0, 1, 1)), FakeNvml(gpus=8, switch=18)):
        topology = read(fake)
        assert report.read(report.write(topology)) == topology


def test_that_a_report_is_one_short_readable_line() -> None:
    text = report.write(read(FakeNvml(bonds={(0, 1): 12, (2, 3): 12}, numa=(0, 0, 1, 1))))
    assert text == (
        "1;gpu=A100-PCIE-40GB*4;minor=0,1,2,3;nvlink=20*4;pcie=24*4;numa=0*2,1*2;cpus=0-15*2,16-31*2;"
        "links=NV12/SYS,SYS*4,NV12/SYS;socket=12;switch=0;crc=" + text[-8:]
    )


RANGES = st.sets(st.integers(0, 300), max_size=6).map(to_ranges)
GPUS = st.builds(
    Gpu,
    st.builds(Rates, st.sampled_from([12.0, 20.6]), st.sampled_from([1.5, 24.0])),
    st.none() | st.integers(0, 99),
    st.from_regex(r"[A-Za-z0-9_.()/-]{0,20}", fullmatch=True).filter(lambda name: name != "-"),
    RANGES,
    RANGES,
)
LINKS = st.builds(Link, st.integers(1, 18), st.none() | st.sampled_from(Path)) | st.builds(
    Link, st.just(0), st.sampled_from(Path)
)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    gpus = draw(st.lists(GPUS, min_size=1, max_size=6))
    count = len(gpus)
    size = count * (count - 1) // 2
    links = draw(st.lists(LINKS, min_size=size, max_size=size))
    ways = st.lists(st.sampled_from(Path), min_size=count, max_size=count).map(tuple)
    names = draw(st.sets(st.from_regex(r"[A-Za-z][\w.:-]{0,9}", fullmatch=True), max_size=3))
    nics = tuple(Nic(name, draw(ways)) for name in sorted(names) if name.isascii())
    between = len(nics) * (len(nics) - 1) // 2
    nic_links = draw(st.lists(st.sampled_from(Path), min_size=between, max_size=between))
    return Topology(tuple(gpus), tuple(links), nics, tuple(nic_links), 16.0, draw(st.booleans()))


@given(topologies())
def test_that_the_report_of_any_topology_reads_back(topology: Topology) -> None:
    text = report.write(topology)
    assert report.read(text) == topology
    assert not set(text) & set(" {}\n")


def test_that_a_mutated_report_is_refused_with_its_column() -> None:
    rng, text = random.Random(2), report.write(DGX1)
    for _ in range(2000):
        at = rng.randrange(len(text))
        broken = text[:at] + rng.choice(["", "0", "9", "S", ";", "*", ","]) + text[at + 1 :]
        if broken == text:
            continue
        with pytest.raises(TopologyError) as caught:
            report.read(broken, "n1")
        assert caught.value.line == 1 and 1 <= caught.value.column <= len(broken) + 1


WRONG = {
    "": "n1:1:1: expected 1; at the start and ;crc= at the end",
    "2;gpu=-": "n1:1:1: expected 1; at the start",
    "1;gpu=-;gpu=-": 'n1:1:9: "gpu" is not a key that may stand here',
    "1;colour=red": 'n1:1:3: "colour" is not a key that may stand here',
    "1;gpu=-*2": "nvlink= is missing",
    "1;gpu=-*999999": "n1:1:7: gpu= has",
    "1;gpu=a b": 'n1:1:7: gpu= has "a b" where the name of a card belongs',
    "1;gpu=-*40": "n1:1:7: 40 GPUs are more than 32",
}


@pytest.mark.parametrize("text", WRONG)
def test_that_a_wrong_report_is_refused(text: str) -> None:
    with pytest.raises(TopologyError) as caught:
        report.read(f"{text};crc={report.checksum(text)}" if text else "", "n1")
    assert WRONG[text] in str(caught.value)


FIELDS = "1;gpu=-*2;minor=-*2;nvlink=20*2;pcie=24*2;numa=-*2;cpus=-*2;links={};socket=12;switch=0"


@pytest.mark.parametrize("links", ["NV19", "NV2/", "/SYS", "SYS*2", "-", "", "NVX", "NV2/XXX"])
def test_that_a_wrong_link_is_refused(links: str) -> None:
    text = FIELDS.format(links)
    with pytest.raises(TopologyError, match=r"n1:1:\d+: links= has"):
        report.read(f"{text};crc={report.checksum(text)}", "n1")
