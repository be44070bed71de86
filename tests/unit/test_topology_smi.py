"""Claims about reading what `nvidia-smi topo -m` printed."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pysched.topology import Link, Path, Topology, TopologyError, smi
from pysched.topology.model import Ranges
from pysched.topology.text import ranges_text
from tests.unit.topo_expected import DAMAGED, FOLDER, MACHINES, Expected

MUTATIONS = 10_000


def text_of(name: str) -> str:
    return (FOLDER / name).read_text()


def spread(runs: tuple[tuple[str, int], ...], gpus: int) -> list[str]:
    return [text for text, count in runs for _ in range(count)] or [""] * gpus


def texts(ranges: list[Ranges]) -> list[str]:
    return [ranges_text(each) for each in ranges]


def test_that_every_file_of_the_collection_has_an_expectation() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(MACHINES) | set(DAMAGED)


@pytest.mark.parametrize("name", MACHINES)
def test_that_a_file_reads_as_its_picture_shows(name: str) -> None:
    expected, topology = MACHINES[name], smi.read(text_of(name), name)
    assert len(topology) == expected.gpus
    assert {pair: topology.link(*pair) for pair in expected.matrix()} == expected.matrix()
    assert texts([gpu.cpus for gpu in topology.gpus]) == spread(expected.cpus, expected.gpus)
    assert texts([gpu.numa for gpu in topology.gpus]) == spread(expected.numa, expected.gpus)
    nics = {nic.name: " ".join(path.name for path in nic.paths) for nic in topology.nics}
    assert nics == expected.nics
    assert topology.switch is expected.switch


@pytest.mark.parametrize("name", DAMAGED)
def test_that_a_damaged_file_is_refused_with_its_place(name: str) -> None:
    with pytest.raises(TopologyError) as caught:
        smi.read(text_of(name), name)
    assert str(caught.value) == name + DAMAGED[name]


@pytest.mark.parametrize("name", MACHINES)
def test_that_the_matrix_written_reads_back_as_the_same_machine(name: str) -> None:
    topology = smi.read(text_of(name), name)
    assert smi.read(smi.write(topology)) == topology


def test_that_links_between_adapters_are_read() -> None:
    topology = smi.read(text_of("dgx1_v100_4nic.txt"))
    ways = ("SYS", "PHB", "SYS", "SYS", "PHB", "SYS")
    assert topology.nic_links == tuple(Path[way] for way in ways)


# --- what is met in the wild ----------------------------------------------------------------------

PAIR = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV2\t0-3\t0\nGPU1\tNV2\t X \t4-7\t1\n"

WILD = {
    "an underlined header": PAIR.replace("GPU0\tGPU1\t", "\x1b[4mGPU0\tGPU1\t", 1).replace(
        "NUMA Affinity", "NUMA Affinity\x1b[0m"
    ),
    "a header without its tab": PAIR.removeprefix("\t"),
    "tabs turned into spaces": PAIR.expandtabs(),
    "an indented block": "".join(f"    {line}\n" for line in PAIR.expandtabs().splitlines()),
    "Windows line ends": PAIR.replace("\n", "\r\n"),
    "a legend and the names of adapters behind": PAIR
    + "\nLegend:\n\n  X    = Self\n  SYS  = Connection\n\nNIC Legend:\n\n  NIC0: mlx5_0\n",
    "comments and blank lines": f"# node n1\n\n{PAIR}\n\n",
    "the surplus tab of nvidia-smi": PAIR.replace("NUMA Affinity", "NUMA Affinity\tGPU NUMA ID")
    .replace("0-3\t0", "0-3\t0\t\tN/A")
    .replace("4-7\t1", "4-7\t1\t\tN/A"),
    "no line end at the end": PAIR.rstrip("\n"),
}


@pytest.mark.parametrize("what", WILD)
def test_that_it_reads_despite(what: str) -> None:
    assert smi.read(WILD[what]) == smi.read(PAIR)


def test_that_soc_of_old_drivers_is_sys() -> None:
    assert smi.read(PAIR.replace("NV2", "SOC")).link(0, 1) == Link(path=Path.SYS)


def test_that_an_empty_cpu_cell_is_not_known() -> None:
    topology = smi.read(PAIR.replace("4-7", ""))
    assert (topology.gpus[1].cpus, topology.gpus[1].numa) == ((), ((1, 1),))


def test_that_a_row_may_come_before_another() -> None:
    header, first, second = PAIR.splitlines(keepends=True)
    assert smi.read(header + second + first) == smi.read(PAIR)


# --- damage ---------------------------------------------------------------------------------------

BROKEN: dict[str, tuple[Callable[[str], str], str]] = {
    "nothing": (lambda _: "", ":1:1: expected the header of the matrix, which starts with GPU0"),
    "no header": (
        lambda text: "\n".join(text.splitlines()[1:]),
        ":1:1: expected the header of the matrix, which starts with GPU0",
    ),
    "two cells run together": (
        lambda text: text.replace("GPU1\tNV2\t X ", "GPU1\tNV2 X "),
        ':3:6: expected NV1 to NV18, PSB, PIX, PXB, PHB, NODE, SYS, found "NV2 X"',
    ),
    "a cell lost": (lambda text: text.replace("NV2\t X \t4", " X \t4"), ":3:7: X belongs"),
    "a row cut in the matrix": (lambda text: text[:-13], ":3:7: the row GPU1 ends after 1 of 2"),
    "a row cut after the matrix": (
        lambda text: text[:-7],
        ":3:13: the row GPU1 ends before the column CPU Affinity",
    ),
    "a row cut in its affinity": (
        lambda text: text.replace("4-7\t1", "4-"),
        ":3:14: the row GPU1 has 1 cells for the columns CPU Affinity, NUMA Affinity",
    ),
    "an affinity that is half of its neighbour's": (
        lambda text: text.replace("0-3", "0-31").replace("4-7\t1", "0-3\t0"),
        ':3:14: "0-3" and "0-31" are of one NUMA node, but one is cut short',
    ),
    "a row missing": (
        lambda text: text.replace("GPU1\tNV2\t X \t4-7\t1\n", ""),
        ":3:1: the row GPU1 is missing: the text is cut short",
    ),
    "a row twice": (lambda text: text + text.splitlines()[1], ":4:1: a second row GPU0"),
    "a row too many": (lambda text: text + "GPU2\tX\n", ":4:1: expected a row of the header's"),
    "the ends disagree": (
        lambda text: text.replace("GPU1\tNV2", "GPU1\tNV1"),
        ":3:6: GPU1 says NV1 to GPU0, but GPU0 says NV2 to GPU1",
    ),
    "no device can have so many links": (
        lambda text: text.replace("NV2", "NV20"),
        ":2:10: expected NV1 to NV18",
    ),
    "the diagonal is off": (
        lambda text: text.replace("GPU0\t X \tNV2", "GPU0\tNV2\t X "),
        ":2:6: expected X where a device meets itself",
    ),
    "a column renamed": (
        lambda text: text.replace("GPU1\tCPU", "GPU2\tCPU"),
        ":1:7: expected the column GPU1, found GPU2",
    ),
    "a column without a name": (
        lambda text: text.replace("CPU Affinity", "CPU Affinit"),
        ':1:12: "CPU" cannot be the name of a column',
    ),
    "an affinity that falls": (
        lambda text: text.replace("4-7", "7-4"),
        ':3:14: expected rising numbers and ranges such as 0-23,48-71, found "7-4"',
    ),
    "cells that spaces cannot tell apart": (
        lambda text: text.replace("4-7", "").expandtabs(),
        ":3:33: the row GPU1 has 1 cells for the columns",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_that_damage_is_refused_with_line_and_column(what: str) -> None:
    damage, message = BROKEN[what]
    with pytest.raises(TopologyError) as caught:
        smi.read(damage(PAIR), "f")
    assert str(caught.value).startswith(f"f{message}")


def test_that_columns_count_the_escapes_of_the_terminal() -> None:
    with pytest.raises(TopologyError) as caught:
        smi.read(PAIR.replace("GPU1\tNV2", "\x1b[4mGPU1\x1b[0m\tNV2?"), "f")
    assert str(caught.value).startswith("f:3:14:")


# --- mutations ------------------------------------------------------------------------------------


LETTERS = "NVXSPIB 0123456789-,\t\n/A#"


def change_characters(text: str, rng: random.Random) -> str:
    """Lose, add or exchange one character."""
    at, width = rng.randrange(len(text)), rng.choice((0, 1))
    return text[:at] + rng.choice(("", rng.choice(LETTERS))) + text[at + width :]


def cut(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(len(text))]


def change_lines(text: str, rng: random.Random) -> str:
    """Lose, repeat or exchange lines."""
    lines = text.splitlines(keepends=True)
    line, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    lost, repeated, exchanged = list(lines), list(lines), list(lines)
    del lost[line]
    repeated.insert(other, lines[line])
    exchanged[line], exchanged[other] = lines[other], lines[line]
    return "".join(rng.choice((lost, repeated, exchanged)))


def change_cells(text: str, rng: random.Random) -> str:
    """Lose a cell, or run two together."""
    lines = text.splitlines(keepends=True)
    line = rng.randrange(len(lines))
    cells = lines[line].rstrip("\n").split("\t")
    cell = rng.randrange(len(cells))
    cells[cell : cell + 2] = rng.choice(
        (cells[cell + 1 : cell + 2], ["".join(cells[cell : cell + 2])])
    )
    lines[line] = "\t".join(cells) + "\n"
    return "".join(lines)


ACCIDENTS = (
    change_characters,
    change_characters,
    change_characters,
    cut,
    change_lines,
    change_cells,
)


def mutated(text: str, rng: random.Random) -> str:
    """The text with one accident of copying, if anything is left of it."""
    return rng.choice(ACCIDENTS)(text, rng) if text else text


def same_links(topology: Topology, expected: Expected) -> bool:
    return len(topology) == expected.gpus and all(
        topology.link(*pair) == link for pair, link in expected.matrix().items()
    )


def test_that_a_mutated_file_reads_right_or_is_refused_with_its_place() -> None:
    rng, names, refused = random.Random(1), sorted(MACHINES), 0
    for _ in range(MUTATIONS):
        name = rng.choice(names)
        text = mutated(text_of(name), rng)
        for _ in range(rng.randrange(2)):
            text = mutated(text, rng)
        try:
            assert same_links(smi.read(text, name), MACHINES[name]), text
        except TopologyError as error:
            refused += 1
            lines = text.split("\n")
            assert 1 <= error.line <= len(lines)
            assert 1 <= error.column <= len(lines[error.line - 1]) + 1
    assert MUTATIONS / 10 < refused < MUTATIONS


@given(st.text(alphabet="GPU01NVXSY \t\n-,\x1b[4mCAffinity/#", max_size=300))
def test_that_no_text_makes_the_reader_fall_over(text: str) -> None:
    try:
        smi.read(text)
    except TopologyError as error:
        assert error.line >= 1 and error.column >= 1
