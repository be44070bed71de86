#!/usr/bin/env bash
# The demonstration, run inside a simulated cluster by tests/demo/run: what a user would type, and what comes back.
set -euo pipefail
here=$(dirname "$0")
job="$here/job.py"
python=/opt/slurm-vgpu/venv/bin/python

if [[ -t 1 ]]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi
say() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
show() {
    printf '%s$ %s%s\n' "$bold" "$*" "$plain"
    "$@"
}
as_alice() { runuser -u alice -- "$@"; }
# As a user, submit a batch script of one line, wait for it, and show its output.
out=$(as_alice mktemp)
submit() {
    printf '%s$ sbatch %s --wrap "%s"%s\n' "$bold" "$1" "${2//$python/python}" "$plain"
    # shellcheck disable=SC2086 # the options are several words
    as_alice sbatch --wait --output="$out" $1 --wrap "$2" >/dev/null || true
    cat "$out"
}

# On a real node `vgpu ps` needs no option; here the nodes share one machine, so each has a folder of its own.
on_n1() {
    printf '%sn1$ %s%s\n' "$bold" "$*" "$plain"
    "$@" --runtime-dir /run/vgpu/n1
}
holds() { vgpu ps --json --runtime-dir /run/vgpu/n1 | python3 -c 'import json, sys; print(sum(v["job"] == int(sys.argv[1]) and v["charged"] > 0 for v in json.load(sys.stdin)))' "$1"; }

say "Two nodes with four GPUs each (simulated). Every GPU is cut into eight vGPUs of 4 GiB."
show sinfo -N -o "%N %t %G"

say "A job asks for two vGPUs. It gets them on two different, well linked GPUs, and cannot take more than their memory."
submit "--gres=vgpu:2" "$python $job"

say "While a job runs, everyone can see what it holds: Slurm's own tools, and vgpu ps on the node."
id=$(as_alice sbatch --parsable --nodelist=n1 --gres=vgpu:2 --output=/dev/null --wrap "$python $job --hold")
until [[ $(holds "$id") == 2 ]]; do sleep 0.2; done
printf '%s$ scontrol show job -d %s | grep -E "GRES=|AdminComment"%s\n' "$bold" "$id" "$plain"
scontrol show job -d "$id" | grep -E "GRES=|AdminComment"
on_n1 vgpu ps
scancel "$id"

say "A job without a vGPU sees no GPU at all."
submit "" "$python -c 'from cuda.bindings import driver as cu; print(cu.cuInit(0)[0].name)'; cat /dev/nvidia0"

say "Afterwards nothing is held: not by Slurm, not by vgpud, and the (simulated) driver agrees."
while [[ -n $(squeue -h) ]]; do sleep 0.1; done
on_n1 vgpu ps
show "$here/../gpusim/gpusim" stat --dir /run/gpusim-nodes/n1
say "That was real Slurm $(sinfo --version | cut -d' ' -f2) with slurm-vgpu's plugins; only the GPUs were simulated."
