"""Write a C file with a weak definition of every function that nvml.h declares.

The library then exports the whole of NVML: what the simulator answers has a strong definition
elsewhere, and everything else says NOT_SUPPORTED (or UNINITIALIZED before nvmlInit), as on a device
without the feature.

    nvml_defaults.py nvml.h > nvml_defaults.c
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PROTOTYPE = re.compile(r"nvmlReturn_t\s+DECLDIR\s+(nvml\w+)\s*\(([^;{]*)\)\s*;")

# Entry points that drivers still export though the header has only macros for them.
ELSEWHERE = {
    "nvmlGetBlacklistDeviceCount": "unsigned int *deviceCount",
    "nvmlGetBlacklistDeviceInfoByIndex": "unsigned int index, nvmlExcludedDeviceInfo_t *info",
}


def prototypes(header: str) -> dict[str, str]:
    """Name -> parameter list of every function in the text of nvml.h."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", " ", header, flags=re.DOTALL)
    found = {name: " ".join(params.split()) for name, params in PROTOTYPE.findall(code)}
    declared = set(re.findall(r"DECLDIR\s+(nvml\w+)", code))
    if missing := declared - set(found):
        raise SystemExit(f"nvml.h declares {sorted(missing)[0]}, which this script cannot read")
    return found


def main() -> None:
    functions = prototypes(Path(sys.argv[1]).read_text())
    print("/* Made by nvml_defaults.py: every function of nvml.h, weak. */")
    print('#include "nvml_impl.h"\n')
    print('#pragma GCC diagnostic ignored "-Wunused-parameter"')
    print('#pragma GCC diagnostic ignored "-Wmissing-prototypes"\n')
    for name, params in sorted((ELSEWHERE | functions).items()):
        print(f"NVML_WEAK nvmlReturn_t {name}({params})")
        print(f'{{\n    return nvml_not_supported("{name}");\n}}\n')


if __name__ == "__main__":
    main()
