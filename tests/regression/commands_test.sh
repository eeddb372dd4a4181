#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# Commands that compute nothing, and every deck of inputs/ as far as a dry run goes.
set -euo pipefail
# shellcheck source=tests/regression/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

expect_valid 2 --help
expect_out 'run .*'
expect_out 'Exit codes: 0 '
[[ $(grep -c 'Exit codes' "$scratch/out") -eq 1 ]] || die "every rank prints"
for command_name in run sweep verify compare; do
  expect_valid 1 "$command_name" --help
  expect_out 'Usage|OPTIONS|Options'
done
expect_valid 1 --version
expect_out 'miniSP [0-9]+\.[0-9]+\.[0-9]+'
expect_valid 2 info
expect_out '^blas_kernel +[A-Za-z]'
for preset in llama-3.2-1b llama-3.2-3b llama-3.1-8b qwen1.5-1.8b qwen2.5-3b qwen3-8b gpt2 qwen2.5-3b-basp-table2; do
  expect_out "^ +$preset +[0-9]+ parameters"
done
expect_valid 1 run --keys
for key in model.layers parallel.system parallel.sequence_degree train.steps train.precision output.file; do
  expect_out "${key#*.}"
done

# Eight ranks as the decks are meant for; nothing is allocated that a laptop has not got.
for deck in "$MINISP_SOURCE"/inputs/*.toml; do
  expect_valid 8 run "$deck" --dry-run
  expect_out '^plan +[a-z]+: 8 ranks'
  expect_out 'parameters'
  expect_out '^ +total +[0-9.]+ [KMG]iB'
  expect_no_out '^step'
done
# The paper's sweeps, for the ranks that they name, from a job of one.
for sweep in "$MINISP_SOURCE"/inputs/paper/*.toml; do
  expect_valid 1 sweep "$sweep" --dry-run
  expect_out '^PLAN: llama3.2-[13]b_[A-Za-z0-9_]+_ulysses  ulysses: 8 ranks'
  [[ $(grep -c '^PLAN: ' "$scratch/out") == "$(sed -n 's/^sweep .*: \([0-9]*\) cases*, .*/\1/p' "$scratch/out")" ]] ||
    die "not a plan for every case"
done
[[ $(find "$MINISP_SOURCE/inputs/paper" -name 'figure*.toml' | wc -l) -eq 13 ]] ||
  die "not six figures in two sizes, and the tenth in bf16"
# What a dry run is for.
refuse 2 4 'tokens.bin: ' run "$tiny" --dry-run data.source=tokens "data.file=$scratch/tokens.bin"
touch "$scratch/there.h5"
refuse 2 4 'there.h5: .*exists' run "$tiny" --dry-run "output.file=$scratch/there.h5"

# A folder whose name has quotes in it.
cp -r "$MINISP_SOURCE/tests/reference/qwen3-qk-norm" "$scratch/it's \"one\""
expect_valid 1 verify --reference "$scratch/it's \"one\""
finish
