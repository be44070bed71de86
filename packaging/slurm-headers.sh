#!/usr/bin/env bash
# Which release of Slurm the headers are of that a compiler finds, such as 22.05.8. Where folders are named, only those
# count: a Slurm of the distribution beside one's own must not be taken for it. Usage: slurm-headers.sh CC [CFLAG...]
set -euo pipefail
folders=()
for flag; do [[ $flag = -I* ]] && folders+=("${flag#-I}"); done

# By the compiler with its arguments, or below one of the folders.
found() {
    ((${#folders[@]})) || { "$@" -E -x c - <<<"#include <$header>" >/dev/null 2>&1 && return; }
    for folder in "${folders[@]}"; do [[ -e $folder/$header ]] && return; done
    return 1
}

for header in slurm/slurm.h slurm/slurm_version.h slurm/spank.h; do
    found "$@" && continue
    echo "make: $header is not in ${folders[*]:-/usr/include}: install Slurm's headers (Debian: libslurm-dev)," \
        "or name the folder that has include/slurm, as in SLURM_PREFIX=/opt/slurm" >&2
    exit 2
done
number=$("$@" -E -P -x c - <<<$'#include <slurm/slurm_version.h>\nSLURM_VERSION_NUMBER' | tail -n 1)
printf '%02d.%02d.%d\n' $((number >> 16)) $((number >> 8 & 255)) $((number & 255))
