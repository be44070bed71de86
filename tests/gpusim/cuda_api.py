"""Write the C files of the simulated libcuda.so.1 that follow from NVIDIA's headers.

cuda_api.h      a prototype sim_NAME for every function NAME of cuda.h: what the parts define
cuda_exports.c  the exported functions (fault injection, then sim_NAME), and a weak sim_NAME for
                what no part defines: NOT_SUPPORTED, or for a per-thread-stream variant the plain
                function
cuda_errors.c   names and texts of the error codes
cuda_procs.c    what cuGetProcAddress answers: (name, version, stream flavour) -> symbol

    cuda_api.py INCLUDE_DIR OUTPUT_DIR
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

# cudaProfiler.h declares these; they have been in every driver.
ALSO = {"cuProfilerStart": "void", "cuProfilerStop": "void"}

# May be called before cuInit.
EARLY = {
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetExportTable",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
}


@dataclass(frozen=True)
class Function:
    name: str
    params: tuple[str, ...]  # as declared; () for void

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name_of(p) for p in self.params)

    @property
    def prototype(self) -> str:
        return f"({', '.join(self.params) or 'void'})"

    @property
    def out(self) -> str | None:
        """The first parameter if the function answers through it."""
        if self.params and re.match(r"(?!const\b)[\w ]+\*+ ?\w+$", self.params[0]):
            kind = self.params[0].rsplit("*", 1)[0].strip()
            return None if kind in ("void", "CUhostFn") else self.names[0]
        return None


def name_of(param: str) -> str:
    match = re.search(r"(\w+)\s*(?:\[[^]]*\])*$", param)
    if not match:
        raise SystemExit(f"cuda.h: cannot read the parameter {param!r}")
    return match[1]


def preprocess(header: Path, include: Path) -> str:
    options = ["-E", "-P", "-D__CUDA_API_VERSION_INTERNAL", f"-I{include}", "-x", "c"]
    command = ["gcc", *options, str(header)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return re.sub(r"\s+", " ", text)


def functions(include: Path) -> dict[str, Function]:
    """Every function of cuda.h, in all its versions."""
    text = preprocess(include / "cuda.h", include)
    found = dict(re.findall(r"CUresult (cu\w+) ?\(([^;]*)\) ?;", text)) | ALSO
    parsed = {}
    for name, params in sorted(found.items()):
        parts = [p.strip() for p in params.split(",")]
        parsed[name] = Function(name, () if parts == ["void"] else tuple(parts))
    return parsed


def flavour(name: str) -> tuple[str, str]:
    """cuMemcpy_ptds -> (cuMemcpy, _ptds)."""
    for suffix in ("_ptds", "_ptsz"):
        if name.endswith(suffix):
            return name.removesuffix(suffix), suffix
    return name, ""


def weak_body(function: Function, known: dict[str, Function]) -> str:
    base, suffix = flavour(function.name)
    if not suffix or base not in known:
        unused = "".join(f"(void){n}; " for n in function.names)
        return f"{unused}return CUDA_ERROR_NOT_SUPPORTED;"
    arguments = [
        f"sim_per_thread({n})" if re.match(r"CUstream \w+$", p) and suffix == "_ptsz" else n
        for p, n in zip(function.params, function.names, strict=True)
    ]
    return f"return sim_{base}({', '.join(arguments)});"


def proc_table(include: Path, known: dict[str, Function]) -> list[tuple[str, int, str, str]]:
    """(name, version, flavour, symbol), sorted.

    The typedef of the n-th version of a function belongs to its n-th export: cuMemAlloc at 2000
    is cuMemAlloc, at 3020 cuMemAlloc_v2.
    """
    text = (include / "cudaTypedefs.h").read_text()
    versions: dict[tuple[str, str], set[int]] = defaultdict(set)
    for name, version, suffix in re.findall(r"\*PFN_(cu\w+?)_v(\d+)(_ptds|_ptsz|)\)", text):
        versions[name, suffix].add(int(version))
    for name in ALSO:
        versions[name, ""].add(4000)
    table = []
    for (name, suffix), numbers in versions.items():
        pattern = re.compile(rf"{name}(?:_v(\d+))?{suffix}")
        matches = [m for m in map(pattern.fullmatch, known) if m]
        matches.sort(key=lambda m: int(m[1] or 1))
        if len(matches) != len(numbers):
            raise SystemExit(f"{name}{suffix}: {len(numbers)} typedefs for {len(matches)} exports")
        table += [(name, v, suffix, m[0]) for v, m in zip(sorted(numbers), matches, strict=True)]
    return sorted(table)


def write_header(path: Path, known: dict[str, Function]) -> None:
    lines = ["/* Made by cuda_api.py. */", "#ifndef GPUSIM_CUDA_API_H"]
    lines += ["#define GPUSIM_CUDA_API_H", ""]
    lines += [f"CUresult sim_{f.name}{f.prototype};" for f in known.values()]
    lines += ["", "enum sim_call {", *(f"    SIM_CALL_{name}," for name in known)]
    lines += ["    SIM_CALLS", "};", "", "#endif", ""]
    path.write_text("\n".join(lines))


def write_exports(path: Path, known: dict[str, Function]) -> None:
    lines = ["/* Made by cuda_api.py. */", '#include "sim.h"', ""]
    lines += ['#pragma GCC diagnostic ignored "-Wmissing-prototypes"', ""]
    lines += ["const struct sim_call_info sim_calls[] = {"]
    lines += [f'    {{"{name}", {str(name in EARLY).lower()}}},' for name in known]
    lines += ["};", ""]
    for f in known.values():
        out = f"{f.out}, {f.out} ? sizeof(*{f.out}) : 0" if f.out else "NULL, 0"
        lines += [
            f"__attribute__((weak)) CUresult sim_{f.name}{f.prototype}",
            "{",
            f"    {weak_body(f, known)}",
            "}",
            f"SIM_EXPORT CUresult {f.name}{f.prototype}",
            "{",
            f"    SIM_ENTER(SIM_CALL_{f.name}, {out});",
            f"    return sim_{f.name}({', '.join(f.names)});",
            "}",
        ]
    path.write_text("\n".join([*lines, ""]))


def write_procs(path: Path, table: list[tuple[str, int, str, str]]) -> None:
    number = {"": 0, "_ptsz": 1, "_ptds": 1}
    lines = ["/* Made by cuda_api.py. */", '#include "procaddress.h"', ""]
    lines += [f"CUresult {name}({params});" for name, params in ALSO.items()]
    lines += ["", "const struct sim_proc sim_procs[] = {"]
    lines += [
        f'    {{"{name}", {version}, {number[suffix]}, "{symbol}", (void *){symbol}}},'
        for name, version, suffix, symbol in table
    ]
    lines += ["};", "const unsigned sim_n_procs = sizeof(sim_procs) / sizeof(*sim_procs);", ""]
    path.write_text("\n".join(lines))


def write_errors(path: Path, include: Path) -> None:
    """CUDA_ERROR_OUT_OF_MEMORY -> its name, and "out of memory"."""
    text = preprocess(include / "cuda.h", include)
    codes = re.findall(r"\b(CUDA_(?:ERROR_\w+|SUCCESS)) *= *(\d+)", text)
    lines = ["/* Made by cuda_api.py. */", '#include "sim.h"', ""]
    lines += ["const struct sim_error sim_errors[] = {"]
    for name, code in codes:
        words = name.removeprefix("CUDA_ERROR_").replace("_", " ").lower()
        lines.append(f'    {{{code}, "{name}", "{words if int(code) else "no error"}"}},')
    lines += ["};", "const unsigned sim_n_errors = sizeof(sim_errors) / sizeof(*sim_errors);", ""]
    path.write_text("\n".join(lines))


def main() -> None:
    include, output = Path(sys.argv[1]), Path(sys.argv[2])
    known = functions(include)
    output.mkdir(parents=True, exist_ok=True)
    write_header(output / "cuda_api.h", known)
    write_exports(output / "cuda_exports.c", known)
    write_errors(output / "cuda_errors.c", include)
    write_procs(output / "cuda_procs.c", proc_table(include, known))


if __name__ == "__main__":
    main()
