"""The table of hooks against cuda.h, cudaTypedefs.h, nvml.h and the library built from it."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "build/venv/include-cuda"
SHIM = ROOT / "build/libvgpu.so"

# What a name that takes or keeps device memory has in it.
SOUNDS_LIKE_MEMORY = re.compile(
    r"Alloc|Create|Load|Import|Register|Retain|Reserve|Instantiate|Open|Upload|Attach"
    r"|EnablePeer|FromGreen|Multicast(?!Get|Unbind|AddDevice)|Prefetch|MapResources|Map(?=$|Array)"
    r"|ProcessRestore$|AddNode"
)
# And these, which start something but make nothing.
HARMLESS = re.compile(r"^cu(Event|StreamBeginCapture|Unregister)|Unload|Unregister|RestoreThreadId")


@dataclass(frozen=True)
class Row:
    macro: str
    symbol: str
    since: int
    kind: str = ""
    charged: str = ""
    released: str = ""


def table() -> list[Row]:
    text = re.sub(r"/\*.*?\*/", "", (ROOT / "spank/shim/hooks.def").read_text(), flags=re.S)
    rows = []
    for macro, inside in re.findall(r"^(HOOK|GATE|USED|NONE)\((.*?)(?:,|\)$)", text, re.M):
        rows.append(Row(macro, inside, 0))
    found = {}
    for match in re.finditer(r"^HOOK\((\w+), (\d+), (\w+), (\w+), (\w+)\)$", text, re.M):
        symbol, since, kind, charged, released = match.groups()
        found[symbol] = Row("HOOK", symbol, int(since), kind, charged, released)
    for match in re.finditer(r"^GATE\((\w+), (\d+),", text, re.M):
        found[match[1]] = Row("GATE", match[1], int(match[2]))
    for match in re.finditer(r"^GATE_BOTH\((\w+), (\d+), (_\w+), (\d+),", text, re.M):
        found[match[1]] = Row("GATE", match[1], int(match[2]))
        found[match[1] + match[3]] = Row("GATE", match[1] + match[3], int(match[4]))
    rest = [row for row in rows if row.macro in ("USED", "NONE")]
    assert len(found) + len(rest) > 200
    return [*found.values(), *rest]


def split(symbol: str) -> tuple[str, int, str]:
    """cuMemcpyHtoD_v2_ptds -> cuMemcpyHtoD, 2, _ptds"""
    flavour = next((f for f in ("_ptds", "_ptsz") if symbol.endswith(f)), "")
    base = symbol.removesuffix(flavour)
    match = re.fullmatch(r"(.*)_v(\d+)", base)
    return (match[1], int(match[2]), flavour) if match else (base, 1, flavour)


def declared() -> set[str]:
    """Every entry point that cuda.h declares, under its exported name."""
    source = "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n"
    text = subprocess.run(
        ["cc", "-E", "-P", f"-I{INCLUDE}", "-"],
        input=source,
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    return set(re.findall(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(", text))


def exported() -> set[str]:
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(SHIM)], text=True, capture_output=True, check=True
    ).stdout
    return {line.split()[-1].split("@")[0] for line in listing.splitlines()}


HOOKS = [row for row in table() if row.macro in ("HOOK", "GATE")]


def test_that_every_entry_point_that_may_take_device_memory_is_in_the_table() -> None:
    known = {row.symbol for row in table()}
    none = {row.symbol for row in table() if row.macro == "NONE"}
    missing = [
        name
        for name in sorted(declared())
        if SOUNDS_LIKE_MEMORY.search(split(name)[0])
        and not HARMLESS.search(name)
        and name not in known
        and split(name)[0] not in none
    ]
    assert missing == []


def test_that_the_walk_over_cuda_h_would_notice() -> None:
    names = declared()
    for name in (
        "cuMemAlloc_v2",
        "cuMemAllocAsync_ptsz",
        "cuMemCreate",
        "cuArray3DCreate_v2",
        "cuModuleLoadData",
    ):
        assert name in names
        assert SOUNDS_LIKE_MEMORY.search(split(name)[0])
        assert not HARMLESS.search(name)


def test_that_the_table_names_only_what_the_header_declares() -> None:
    names = declared()
    bases = {split(name)[0] for name in names}
    for row in table():
        assert (split(row.symbol)[0] in bases) if row.macro == "NONE" else (row.symbol in names), (
            row
        )


def test_that_no_entry_point_is_in_the_table_twice() -> None:
    symbols = [row.symbol for row in table() if row.macro != "NONE"]
    assert sorted(symbols) == sorted(set(symbols))


def test_that_every_variant_of_a_hooked_entry_point_is_hooked() -> None:
    """Another version or stream flavour of what is hooked would be a way around it."""
    hooked = {row.symbol for row in HOOKS}
    bases = {split(symbol)[0] for symbol in hooked}
    passes = {"cuModuleGetGlobal"}  # of 32-bit addresses; loads nothing that its module has not
    variants = {name for name in declared() if split(name)[0] in bases}
    assert variants - hooked - passes == set()


def test_that_what_is_charged_has_a_release_in_the_table() -> None:
    bases = {split(row.symbol)[0] for row in HOOKS}
    for row in HOOKS:
        if row.charged in ("BEFORE", "MEASURED", "COUNTED"):
            assert row.kind != "NOTHING", row
            assert row.released in bases, row
        if row.charged == "RELEASES":
            assert row.kind != "NOTHING", row


def versions_by_header() -> dict[tuple[str, str], list[int]]:
    text = (INCLUDE / "cudaTypedefs.h").read_text()
    versions: dict[tuple[str, str], list[int]] = {}
    for base, version, flavour in re.findall(r"\bPFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)?\)", text):
        versions.setdefault((base, flavour), []).append(int(version))
    return {key: sorted(set(found)) for key, found in versions.items()}


@pytest.mark.parametrize("row", HOOKS, ids=lambda row: row.symbol)
def test_that_the_version_of_a_variant_is_the_headers(row: Row) -> None:
    base, _, flavour = split(row.symbol)
    known = versions_by_header().get((base, flavour))
    if known is None:  # not in cudaTypedefs.h: green contexts
        assert base.startswith("cuGreenCtx")
        return
    variants = sorted(
        name for name in declared() if split(name)[0] == base and split(name)[2] == flavour
    )
    assert len(variants) == len(known)
    assert row.since == known[variants.index(row.symbol)]


def test_that_the_library_shows_the_hooks_and_nothing_else() -> None:
    text = (ROOT / "spank/shim/nvml.def").read_text()
    nvml = set(re.findall(r"^HOOK\((\w+)\)", text, re.M))
    assert exported() == {row.symbol for row in HOOKS} | nvml | {"dlsym", "dlvsym"}


def test_that_every_version_of_a_hooked_nvml_function_is_hooked() -> None:
    text = (INCLUDE / "nvml.h").read_text()
    names = set(re.findall(r"\bnvmlReturn_t DECLDIR (nvml\w+)\(", text))
    hooked = set(re.findall(r"^HOOK\((\w+)\)", (ROOT / "spank/shim/nvml.def").read_text(), re.M))
    assert hooked <= names
    bases = {re.sub(r"_v\d$", "", name) for name in hooked}
    assert {name for name in names if re.sub(r"_v\d$", "", name) in bases} == hooked
