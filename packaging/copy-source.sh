#!/usr/bin/env bash
# Copy what is committed, or would be, into a folder to build packages in, with what distributions lack laid in build/:
# the headers of CUDA and NVML, and Python modules. Usage: copy-source.sh FOLDER MODULE...
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$1
shift
rm -rf "$copy"
mkdir -p "$copy/build"
files() {
    if git rev-parse --git-dir >/dev/null 2>&1; then
        git ls-files -co --exclude-standard -z | while IFS= read -r -d '' file; do
            [[ ! -e $file ]] || printf '%s\0' "$file"
        done
    else # from a tarball
        find . -path ./build -prune -o -type f -printf '%P\0'
    fi
}
files | xargs -0 cp --parents --target-directory "$copy"
build/venv/bin/python packaging/bundle.py "$copy/build/bundled" "$@"
touch "$copy/build/bundled/.made"
cp -rL build/venv/include-cuda "$copy/build/include-cuda"
touch "$copy/build/.setup"
