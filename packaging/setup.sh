#!/usr/bin/env bash
# Install what building and testing need: Debian packages (only missing ones, as root) and a Python
# virtual environment. Usage: packaging/setup.sh VENV
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1

# Tests run Debian's Slurm; a site that builds for one of its own (make SLURM_PREFIX=) does not get it.
slurm=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins libslurm-dev libpam-slurm-adopt munge)
[[ ${SLURM_PREFIX:-} ]] && slurm=()

packaging/apt.sh \
    gcc make libc6-dev python3-venv python3-dev clang-format clang-14 libclang-rt-14-dev valgrind \
    "${slurm[@]}" \
    lua5.1 lua-socket lua-check util-linux iproute2 procps systemd

[[ -x $venv/bin/python ]] || /usr/bin/python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[build,test]'
# The headers of CUDA and NVML come from wheels; one link gives the compiler a stable path.
include=$("$venv/bin/python" -c 'import nvidia.cu13, os; print(os.path.join(list(nvidia.cu13.__path__)[0], "include"))')
ln -sfn "$include" "$venv/include-cuda"
