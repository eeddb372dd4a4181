#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# run_test.sh RANKS: a deck trains under every system, says so, writes its result, and the results agree.
set -euo pipefail
# shellcheck source=tests/regression/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
ranks=$1
: "${MINISP_CHANGE_VALUE:?}"
short=(train.steps=3 train.warmup_steps=1)

expect_report() {
  expect_out '^FOM: [0-9]+\.[0-9] tokens/s$'
  expect_out '^VALID: yes$'
  expect_out '^STEP: [0-9.]+ s \(median of 3\)$'
  expect_out '^MODEL: [0-9.]+ GFLOP/s, [0-9.]+ % of the matrix-product rate '
  expect_out '^EXCHANGE: [0-9.]+ % of the step$'
  expect_no_out 'FAILED|INVALID'
  [[ $(tail -n 1 "$scratch/out") == "$1" ]] || die "the last line is not '$1'"
}

# As the deck has it.
systems=(data-parallel ulysses basp)
if [[ $ranks -eq 1 ]]; then systems+=(single); fi
for system in "${systems[@]}"; do
  expect_valid "$ranks" run "$tiny" "${short[@]}" "parallel.system=$system"
  expect_report 'VALID: yes'
done

# Two sequences, so that BASP has groups; fp64, everything written.
exact=("${short[@]}" train.precision=fp64 train.optimizer=sgd output.gradients=true output.weights=true
  output.activations=true output.logits=true)
if [[ $ranks -gt 1 ]]; then exact+=(train.batch=2); else exact+=(train.batch=4); fi
for system in ulysses basp; do
  file=$scratch/$system.h5
  expect_valid "$ranks" run "$tiny" "${exact[@]}" "parallel.system=$system" "output.file=$file"
  expect_report "results  $file"
  [[ -s $file ]] || die "no result file"
  [[ ! -e $file.partial ]] || die "a partial file is left"
done
# The same sums in another order: 1e-12, losses, gradients, weights, activations and logits alike.
expect_valid 1 compare "$scratch/ulysses.h5" "$scratch/basp.h5" --tolerance 1e-12
expect_out '^VALID: yes'
for kind in loss 'gradient norm' logits activation gradient weight; do expect_out "^$kind +[0-9]+ +0 "; done
expect_out 'ratio'

# One number off by a part in a million is noticed and named.
"$MINISP_CHANGE_VALUE" "$scratch/basp.h5" /gradients/model.layers.1.mlp.up_proj.weight 7 1e-6
minisp 1 compare "$scratch/ulysses.h5" "$scratch/basp.h5"
expect_code 1
expect_out '^VALID: no'
expect_out 'gradients/model.layers.1.mlp.up_proj.weight'
finish
