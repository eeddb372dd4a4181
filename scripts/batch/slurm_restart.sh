#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# Slurm, a training longer than a job: two minutes before the end the run saves and stops, and the job queues itself again.
#   sbatch --nodes=2 --ntasks-per-node=8 scripts/batch/slurm_restart.sh DECK [key=value ...]
# MINISP names the program (default: build/src/minisp under the folder of submission), MINISP_SAVED the checkpoints' folder.
#SBATCH --job-name=minisp
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --time=00:30:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=minisp-%j.log
set -euo pipefail
[[ $# -gt 0 ]] || { echo "usage: sbatch [options] slurm_restart.sh DECK [key=value ...]" >&2; exit 2; }
program=${MINISP:-${SLURM_SUBMIT_DIR:-$PWD}/build/src/minisp}
saved=${MINISP_SAVED:-saved-$SLURM_JOB_ID}

restart=()
if compgen -G "$saved/step-*.h5" >/dev/null; then restart=(--restart "$saved"); fi
code=0
# A rank that dies may leave the others waiting: a minute after the first one ends, all do. Not --kill-on-bad-exit: exit code 4
# would count as bad, and ranks that end a moment after the first would be killed, with which srun's exit code is another.
srun --distribution=block:block --cpu-bind=cores --wait=60 "$program" run "$@" \
  checkpoint.folder="$saved" checkpoint.every=100 ${restart[@]+"${restart[@]}"} || code=$?
# 4: stopped with a checkpoint to go on from (doc/checkpoints.md).
if [[ $code -eq 4 ]]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
