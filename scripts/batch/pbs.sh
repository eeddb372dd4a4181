#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# PBS:  qsub -l select=2:ncpus=8:mpiprocs=8 -v DECK=inputs/tiny.toml,OPTIONS="train.steps=50" scripts/batch/pbs.sh
# qsub passes no arguments, so the deck and its overrides come in DECK and OPTIONS; MINISP names the program
# (default: build/src/minisp under the folder of submission).
#PBS -N minisp
#PBS -l select=2:ncpus=8:mpiprocs=8
#PBS -l walltime=00:30:00
#PBS -j oe
set -euo pipefail
cd "${PBS_O_WORKDIR:?must be submitted with qsub}"
program=${MINISP:-$PWD/build/src/minisp}
read -r -a options <<<"${OPTIONS:-}"
ranks=$(wc -l <"$PBS_NODEFILE")

echo "nodes: $(sort -u "$PBS_NODEFILE" | wc -l), ranks: $ranks"
# The node file lists each node's slots together, so that K consecutive ranks, a group of BASP, share a node.
mpiexec -n "$ranks" "$program" run "${DECK:?-v DECK=... is missing}" ${options[@]+"${options[@]}"} \
  output.file="minisp-${PBS_JOBID%%.*}.h5"
