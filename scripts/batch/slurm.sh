#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# Slurm:  sbatch --nodes=2 --ntasks-per-node=8 scripts/batch/slurm.sh DECK [key=value ...]
# The site's partition, account and GPU options go on that command line. One task is one rank; MINISP names the
# program (default: build/src/minisp under the folder of submission).
#SBATCH --job-name=minisp
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --time=00:30:00
#SBATCH --output=minisp-%j.log
set -euo pipefail
[[ $# -gt 0 ]] || { echo "usage: sbatch [options] slurm.sh DECK [key=value ...]" >&2; exit 2; }
program=${MINISP:-${SLURM_SUBMIT_DIR:-$PWD}/build/src/minisp}

echo "nodes: $SLURM_JOB_NODELIST, ranks: $SLURM_NTASKS"
# Consecutive ranks on one node (block): a group of BASP is K consecutive ranks and stays inside it.
# A rank that dies may leave the others waiting: a minute after the first one ends, all do.
srun --distribution=block:block --cpu-bind=cores --wait=60 "$program" run "$@" output.file="minisp-$SLURM_JOB_ID.h5"
