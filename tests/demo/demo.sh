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
# Submit a batch script of one line and wait for it; its output is in /tmp/out.
submit() {
    printf '%s$ sbatch %s --wrap "%s"%s\n' "$bold" "$1" "${2//$python/python}" "$plain"
    # shellcheck disable=SC2086 # the options are several words
    sbatch --wait --parsable --output=/tmp/out $1 --wrap "$2" >/tmp/jobid || true
    cat /tmp/out
}

say "Two nodes with four GPUs each (simulated). Every GPU is cut into eight vGPUs of 4 GiB."
show sinfo -N -o "%N %t %G"

say "A job asks for two vGPUs. It gets them on two different, well linked GPUs, and cannot take more than their memory."
submit "--gres=vgpu:2" "$python $job"

say "While a job runs, everyone can see what it holds: Slurm's own tools, and vgpu ps on the node."
sbatch --parsable --nodelist=n1 --gres=vgpu:2 --output=/dev/null --wrap "sleep 60" >/tmp/jobid
id=$(cat /tmp/jobid)
until vgpu ps --node n1 --json 2>/dev/null | grep -q "\"job\": $id\b"; do sleep 0.1; done
printf '%s$ scontrol show job -d %s | grep GRES%s\n' "$bold" "$id" "$plain"
scontrol show job -d "$id" | grep -E "GRES|AdminComment" || true
show vgpu ps --node n1
scancel "$id"

say "A job without a vGPU sees no GPU at all."
submit "" "$python -c 'from cuda.bindings import driver as cu; print(cu.cuInit(0)[0].name)'; cat /dev/nvidia0"

say "Afterwards nothing is held: not by Slurm, not by vgpud, and the (simulated) driver agrees."
while [[ -n $(squeue -h) ]]; do sleep 0.1; done
show vgpu ps --node n1
show "$here/../gpusim/gpusim" stat --dir /run/gpusim-nodes/n1
say "That was real Slurm $(sinfo --version | cut -d' ' -f2) with slurm-vgpu's plugins; only the GPUs were simulated."
