"""The matrix that ``nvidia-smi topo -m`` prints, read strictly and written back.

What is met in the wild is accepted: underlined headers, a header without its leading tab, tabs
turned into spaces, indented blocks, missing rows of network adapters, empty CPU cells, SOC for SYS.
What is damaged is refused with line and column. Every link between GPUs is stated twice, so damage
to either cell shows; a GPU's affinity is stated once, so only impossible values show.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from pysched.topology.model import (
    MOST_GPUS,
    MOST_LINKS,
    Gpu,
    Link,
    Nic,
    Path,
    Ranges,
    Topology,
    TopologyError,
    guessed,
)
from pysched.topology.rates import Rates
from pysched.topology.text import parse_ranges, ranges_text

CPU, NUMA, GPU_NUMA = "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"
TAIL = (CPU, NUMA, GPU_NUMA)
UNKNOWN = "N/A"

_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_HEADER_CELL = re.compile("|".join((*TAIL, r"\S+")))
_GPU_NAME = re.compile(r"GPU(0|[1-9][0-9]?)")
_NIC_NAME = re.compile(r"(?!GPU|CPU|NUMA|Affinity)[A-Za-z][\w.:-]*")
_BOND = re.compile(r"NV([1-9][0-9]?)")
_NO_RATES = Rates(0.0, 0.0)


@dataclass(frozen=True)
class _Cell:
    text: str
    line: int
    column: int


@dataclass(frozen=True)
class _Row:
    label: _Cell
    cells: list[_Cell]
    tail: list[_Cell]
    end: int
    """The column after the last character."""


class _Reader:
    """One text on its way to a topology."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.lines = [line.rstrip("\r") for line in text.split("\n")]

    def error(self, at: _Cell, message: str) -> TopologyError:
        return TopologyError(self.source, at.line, at.column, message)

    def topology(self) -> Topology:
        lines = self.table_lines()
        self.read_header(next(lines, len(self.lines)))
        rows: dict[str, _Row] = {}
        for number in lines:
            row = self.read_row(number)
            if row.label.text in rows:
                raise self.error(row.label, f"a second row {row.label.text}")
            rows[row.label.text] = row
        self.check_complete(rows)
        links = self.gpu_links(rows)
        nics, nic_links = self.nic_paths(rows)
        gpus, switch = guessed(self.read_gpus(rows), links, len(self.gpus))
        return Topology(gpus, links, nics, nic_links, switch=switch)

    def table_lines(self) -> Iterator[int]:
        """Numbers of the lines from the header to the legend."""
        for number, line in enumerate(self.lines, 1):
            text = _ESCAPE.sub("", line).strip()
            if text.endswith("Legend:"):
                return
            if text and not text.startswith("#"):
                yield number

    # --- lines into cells --------------------------------------------------------------------

    def plain(self, number: int) -> tuple[str, list[int]]:
        """A line without terminal escapes, and where each of its characters, and its end, stood."""
        line = self.lines[number - 1] if number <= len(self.lines) else ""
        text, at = "", 0
        columns: list[int] = []
        for escape in [*_ESCAPE.finditer(line), None]:
            end = escape.start() if escape else len(line)
            text += line[at:end]
            columns += range(at + 1, end + 1)
            at = escape.end() if escape else end
        return text, [*columns, len(line) + 1]

    def read_header(self, number: int) -> None:
        text, columns = self.plain(number)
        cells = [
            _Cell(found[0], number, columns[found.start()]) for found in _HEADER_CELL.finditer(text)
        ]
        if [cell.text for cell in cells[:2]] in ([], ["GPU0", "X"]) or cells[0].text != "GPU0":
            at = cells[0] if cells else _Cell("", number, 1)
            raise self.error(at, "expected the header of the matrix, which starts with GPU0")
        self.gpus = [cell.text for cell in cells if _GPU_NAME.fullmatch(cell.text)]
        self.tail = [cell.text for cell in cells if cell.text in TAIL]
        middle = cells[len(self.gpus) : len(cells) - len(self.tail)]
        self.nics = [cell.text for cell in middle]
        expected = [f"GPU{at}" for at in range(len(self.gpus))] + self.nics + self.tail
        for cell, name in zip(cells, expected, strict=True):
            if cell.text != name:
                raise self.error(cell, f"expected the column {name}, found {cell.text}")
        for cell in middle:
            if not _NIC_NAME.fullmatch(cell.text) or self.nics.count(cell.text) > 1:
                raise self.error(cell, f'"{cell.text}" cannot be the name of a column')
        if self.tail != list(TAIL[: len(self.tail)]) or not self.tail:
            raise self.error(
                _Cell("", number, columns[-1]), f"expected the columns {', '.join(TAIL)} at the end"
            )
        if len(self.gpus) > MOST_GPUS:
            raise self.error(cells[MOST_GPUS], f"more than {MOST_GPUS} GPUs")

    def read_row(self, number: int) -> _Row:
        text, columns = self.plain(number)
        if "\t" in text:
            cells, at = [], 0
            for field in text.split("\t"):
                blank = len(field) - len(field.lstrip())
                cells.append(_Cell(field.strip(), number, columns[at + blank]))
                at += len(field) + 1
            while not cells[0].text:
                del cells[0]
        else:
            cells = [
                _Cell(found[0], number, columns[found.start()])
                for found in re.finditer(r"\S+", text)
            ]
        label, width = cells[0], len(self.gpus) + len(self.nics)
        if label.text not in self.gpus and label.text not in self.nics:
            raise self.error(
                label, f'expected a row of the header\'s devices, found "{label.text}"'
            )
        row = _Row(label, cells[1 : width + 1], cells[width + 1 :], columns[-1])
        if len(row.cells) < width:
            raise self.error(
                _Cell("", number, row.end),
                f"the row {label.text} ends after {len(row.cells)} of {width} cells",
            )
        return row

    def check_complete(self, rows: dict[str, _Row]) -> None:
        """Every GPU has a row; the network adapters have either all or none."""
        wanted = self.gpus + (self.nics if any(nic in rows for nic in self.nics) else [])
        for name in wanted:
            if name not in rows:
                message = f"the row {name} is missing: the text is cut short"
                raise self.error(_Cell("", len(self.lines), 1), message)

    # --- cells into links --------------------------------------------------------------------

    def read_link(self, cell: _Cell, nvlink: bool) -> Link:
        """What a cell off the diagonal says."""
        name = "SYS" if cell.text == "SOC" else cell.text
        if name in Path.__members__:
            return Link(path=Path[name])
        bond = _BOND.fullmatch(name)
        if nvlink and bond and int(bond[1]) <= MOST_LINKS:
            return Link(nvlinks=int(bond[1]))
        kinds = f"NV1 to NV{MOST_LINKS}, " if nvlink else ""
        raise self.error(
            cell, f'expected {kinds}{", ".join(Path.__members__)}, found "{cell.text}"'
        )

    def read_cells(self, row: _Row) -> list[Link | None]:
        """A row of the matrix; None on the diagonal."""
        names = self.gpus + self.nics
        gpu_row = row.label.text in self.gpus
        links: list[Link | None] = []
        for at, (name, cell) in enumerate(zip(names, row.cells, strict=True)):
            if (cell.text == "X") != (name == row.label.text):
                where = "X belongs" if cell.text == "X" else "expected X"
                raise self.error(cell, f'{where} where a device meets itself, found "{cell.text}"')
            nvlink = gpu_row and at < len(self.gpus)
            links.append(None if cell.text == "X" else self.read_link(cell, nvlink))
        return links

    def gpu_links(self, rows: dict[str, _Row]) -> tuple[Link, ...]:
        names = [name for name in self.gpus + self.nics if name in rows]
        self.matrix = {name: self.read_cells(rows[name]) for name in names}
        for (row, name), (column, other) in combinations(enumerate(names), 2):
            here, there = self.matrix[other][row], self.matrix[name][column]
            if here != there:
                message = f"{other} says {here} to {name}, but {name} says {there} to {other}"
                raise self.error(rows[other].cells[row], message)
        pairs = combinations(range(len(self.gpus)), 2)
        found = (self.matrix[self.gpus[one]][other] for one, other in pairs)
        return tuple(link for link in found if link is not None)

    def nic_paths(self, rows: dict[str, _Row]) -> tuple[tuple[Nic, ...], tuple[Path, ...]]:
        def path(row: str, column: int) -> Path:
            link = self.matrix[row][column]
            assert link is not None and link.path is not None
            return link.path

        first = len(self.gpus)
        nics = tuple(
            Nic(name, tuple(path(gpu, column) for gpu in self.gpus))
            for column, name in enumerate(self.nics, first)
        )
        if not self.nics or self.nics[0] not in rows:
            return nics, ()
        between = combinations(range(len(self.nics)), 2)
        return nics, tuple(path(self.nics[one], first + other) for one, other in between)

    # --- affinity ----------------------------------------------------------------------------

    def read_gpus(self, rows: dict[str, _Row]) -> list[Gpu]:
        for nic in self.nics:
            for cell in rows[nic].tail if nic in rows else []:
                if cell.text:
                    raise self.error(cell, f'the row {nic} has a cell too many: "{cell.text}"')
        gpus: list[Gpu] = []
        texts: dict[Ranges, _Cell] = {}
        for name in self.gpus:
            cpu, numa = self.affinity_cells(rows[name])
            gpu = Gpu(_NO_RATES, cpus=self.read_ranges(cpu), numa=self.read_ranges(numa))
            first = texts.setdefault(gpu.numa, cpu)
            if gpu.numa and self.cut_from(cpu, first):
                message = (
                    f'"{cpu.text}" and "{first.text}" are of one NUMA node, but one is cut short'
                )
                raise self.error(cpu, message)
            gpus.append(gpu)
        return gpus

    def affinity_cells(self, row: _Row) -> tuple[_Cell, _Cell]:
        """The CPU and NUMA cells of a GPU's row, checked with the one behind them."""
        if not row.tail:
            message = f"the row {row.label.text} ends before the column {CPU}"
            raise self.error(_Cell("", row.label.line, row.end), message)
        # nvidia-smi aligns later columns with surplus tabs; only the first may be empty itself.
        rest = [cell for cell in row.tail[1:] if cell.text]
        if len(rest) != len(self.tail) - 1:
            message = (
                f"the row {row.label.text} has {len(rest) + bool(row.tail[0].text)} cells "
                f"for the columns {', '.join(self.tail)}"
            )
            raise self.error(row.tail[0], message)
        if (
            len(rest) == 2
            and rest[1].text != UNKNOWN
            and not re.fullmatch("[0-9]{1,5}", rest[1].text)
        ):
            raise self.error(rest[1], f'expected a NUMA node or {UNKNOWN}, found "{rest[1].text}"')
        return row.tail[0], rest[0] if rest else _Cell(UNKNOWN, row.label.line, row.end)

    def read_ranges(self, cell: _Cell) -> Ranges:
        if cell.text in ("", UNKNOWN):
            return ()
        try:
            return parse_ranges(cell.text)
        except ValueError as error:
            raise self.error(cell, str(error)) from None

    @staticmethod
    def cut_from(one: _Cell, other: _Cell) -> bool:
        short, long = sorted((one.text, other.text), key=len)
        return short not in ("", long) and long.startswith(short)


def read(text: str, source: str = "topo -m") -> Topology:
    """Read what ``nvidia-smi topo -m`` printed. Raises TopologyError; ``source`` names the text.

    The rates are guessed from the number of links (rates.guess): the text does not say them.
    """
    return _Reader(text, source).topology()


def write(topology: Topology) -> str:
    """The matrix as ``nvidia-smi topo -m`` prints it, without its legend."""
    names = [f"GPU{at}" for at in range(len(topology))] + [nic.name for nic in topology.nics]
    lines = ["\t" + "\t".join((*names, CPU, NUMA))]
    for at, gpu in enumerate(topology.gpus):
        cells = [
            " X " if at == other else str(topology.link(at, other))
            for other in range(len(topology))
        ]
        cells += [nic.paths[at].name for nic in topology.nics]
        cells += [ranges_text(gpu.cpus), ranges_text(gpu.numa) or UNKNOWN]
        lines.append("\t".join((f"GPU{at}", *cells)))
    if topology.nic_links:
        lines += _nic_rows(topology)
    return "\n".join(lines) + "\n"


def _nic_rows(topology: Topology) -> Iterator[str]:
    pairs = combinations(range(len(topology.nics)), 2)
    between = dict(zip(pairs, topology.nic_links, strict=True))
    for at, nic in enumerate(topology.nics):
        cells = [path.name for path in nic.paths]
        for other in range(len(topology.nics)):
            pair = (min(at, other), max(at, other))
            cells.append(" X " if at == other else between[pair].name)
        yield "\t".join((nic.name, *cells))
