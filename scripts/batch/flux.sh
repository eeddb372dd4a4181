#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# Flux:  flux batch --nodes=2 --nslots=16 --exclusive scripts/batch/flux.sh DECK [key=value ...]
# One slot is one rank, and MINISP_RANKS (default 16) how many there are; MINISP names the program (default:
# build/src/minisp under the working folder).
#flux: --job-name=minisp
#flux: --nodes=2
#flux: --nslots=16
#flux: --time-limit=30m
#flux: --output=minisp-{{id}}.log
set -euo pipefail
[[ $# -gt 0 ]] || { echo "usage: flux batch [options] flux.sh DECK [key=value ...]" >&2; exit 2; }
program=${MINISP:-$PWD/build/src/minisp}
ranks=${MINISP_RANKS:-16}

flux resource list
# Flux fills one node after the other, so that a group of BASP (K consecutive ranks) stays inside a node.
flux run --ntasks="$ranks" --cores-per-task=1 -o cpu-affinity=per-task \
  "$program" run "$@" output.file="minisp-${FLUX_JOB_ID:-$$}.h5"
