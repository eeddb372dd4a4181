#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# The performance model from the command line: calibrate, predict, fit, and what they refuse.
set -euo pipefail
# shellcheck source=tests/regression/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
h100=$MINISP_SOURCE/machines/dgx-h100.toml
large=$MINISP_SOURCE/inputs/llama-3.2-1b.toml
paper=$MINISP_SOURCE/inputs/paper

# Measured here, then predicted from: the phases are those that a run prints, in the same order.
expect_valid 4 calibrate --output "$scratch/here.toml" --quick --rounds 1 --name here
expect_out '^ulysses_B2_.* %$'
expect_out '^all_to_all +4 +3 +0 +65536 '
grep -q '^origin = "calibrated"' "$scratch/here.toml" || die "the machine file does not say that it is measured"
grep -q '^# ulysses_B2_' "$scratch/here.toml" || die "the machine file has no residuals"
deck=("$tiny" parallel.system=basp train.batch=2 train.sequence_length=256 train.steps=2 verify.enabled=false)
expect_valid 4 run "${deck[@]}"
sed -n '/^phase, seconds/,/^$/p' "$scratch/out" | sed -n 's/^  \(.*[a-z]\)  .*/\1/p' | sed 's/ *$//' >"$scratch/run_phases"
expect_valid 1 predict "${deck[@]}" --machine "$scratch/here.toml" --ranks 4 --csv "$scratch/predicted.csv"
expect_out '^STEP: [0-9.]+ s \(predicted\)$'
sed -n 's/^tiny,\(.*\),.*/\1/p' "$scratch/predicted.csv" | grep -v -e all_to_all -e step >"$scratch/model_phases"
diff "$scratch/run_phases" "$scratch/model_phases" || die "the model has other phases than a run"
# exchanges add up to all_to_all, and nothing is negative
awk -F, 'NR == 1 { if ($0 != "case,phase,seconds") exit 1; next }
  $3 < 0 { exit 1 }
  $2 ~ /^exchange/ { sum += $3 }
  $2 == "all_to_all" { all = $3 }
  END { if (all <= 0 || (sum - all) / all > 1e-4 || (all - sum) / all > 1e-4) exit 1 }' "$scratch/predicted.csv" ||
  die "the csv does not add up"

expect_valid 1 predict "${deck[@]}" --machine "$scratch/here.toml" --ranks 8
expect_out '^NOTE: extrapolates: ranks = 8, where machine .here. knows 4 to 4$'

# What is there stays.
refuse 2 4 'here.toml: ' calibrate --output "$scratch/here.toml" --quick
refuse 2 1 'predicted.csv: ' predict "$tiny" --machine "$h100" --ranks 8 --csv "$scratch/predicted.csv"

# A sweep: every case, for the sweep's ranks.
expect_valid 1 predict "$paper/figure8.toml" --machine "$h100" --csv "$scratch/sweep.csv"
[[ $(grep -c ',step,' "$scratch/sweep.csv") -eq 8 ]] || die "not every case is predicted"
expect_out '^NOTE: machine .* nothing was measured'
# What if the links between nodes had a tenth of the bandwidth: Ulysses' exchange feels it, computing does not.
expect_valid 1 predict "$paper/figure8.toml" --machine "$h100" --link-factor 0.1 --ranks-per-node 4 --csv "$scratch/slow.csv"
expect_out '^links    off the node with 0.1 times its bandwidth$'
expect_valid 1 predict "$paper/figure8.toml" --machine "$h100" --ranks-per-node 4 --csv "$scratch/fast.csv"
seconds() { sed -n "s/^llama3.2-1b_B8_S8192_ulysses,$2,//p" "$scratch/$1.csv"; }
awk -v slow="$(seconds slow all_to_all)" -v fast="$(seconds fast all_to_all)" 'BEGIN { exit !(slow > 4 * fast) }' ||
  die "a slow link does not show"
[[ $(seconds slow mlp) == "$(seconds fast mlp)" ]] || die "computing depends on the link"

# Plans, best first, and what does not fit in memory last.
expect_valid 1 predict "$large" --machine "$h100" --ranks 16 --plans train.precision=bf16 train.batch=16 train.sequence_length=65536
expect_out '^BEST: '
grep -A200 '^system ' "$scratch/out" | grep -e contiguous -e strided | grep -v 'does not fit' | awk '{ print $(NF - 3) }' |
  grep -v '[a-z]' | sort -gc || die "plans are not sorted"
minisp 1 predict "$large" --machine "$MINISP_SOURCE/machines/basp-paper-start.toml" --ranks 8 --plans train.precision=bf16 train.batch=8 train.sequence_length=131072
expect_code 0
expect_out 'does not fit in 37.25 GiB$'

# A million ranks, sequences of unequal lengths.
printf '16384 124000\n65536 1000 # long ones\n' >"$scratch/lengths"
expect_valid 1 predict "$large" --machine "$h100" --ranks 1000000 --lengths "$scratch/lengths" parallel.system=basp train.batch=125000 train.precision=bf16
expect_out '^plan     basp: 1000000 ranks, 125000 groups of 8'

# The paper's figures.
expect_valid 1 fit "$paper/paper_figures.csv" --figures 9 --machine "$MINISP_SOURCE/machines/basp-paper-start.toml" --output "$scratch/fitted.toml"
expect_out '^9 +llama3.2-3b +2 +16384 step_reduction_pct .* ok$'
[[ $(grep -c '^9 .* ok$' "$scratch/out") -eq 6 ]] || die "not every row of figure 9 is reproduced"
grep -q '^origin = "fitted"' "$scratch/fitted.toml" || die "the machine file does not say that it is fitted"
expect_valid 1 predict "$paper/figure9.toml" --machine "$scratch/fitted.toml"

# Refused, with file, key and remedy.
refuse 2 1 'no_such.toml: ' predict "$tiny" --machine "$scratch/no_such.toml"
refuse 2 1 'machine is required' predict "$tiny"
refuse 2 1 'link-factor: .*0' predict "$tiny" --machine "$h100" --ranks 8 --link-factor 0
sed 's/^seconds_per_call = 2e-5/seconds_per_call = -1/' "$h100" >"$scratch/negative.toml"
refuse 2 1 'negative.toml:[0-9]+: all_to_all.seconds_per_call: -1 is out of range' predict "$tiny" --machine "$scratch/negative.toml" --ranks 8
refuse 2 1 'has no rates of fp32' predict "$tiny" --machine "$h100" --ranks 8
refuse 2 1 'lengths: holds 125000 lengths, and train.batch = 24' predict "$tiny" --machine "$scratch/here.toml" --ranks 8 --lengths "$scratch/lengths"
echo '12 many' >"$scratch/bad_lengths"
refuse 2 1 'bad_lengths:1: is no line of lengths' predict "$tiny" --machine "$scratch/here.toml" --ranks 8 --lengths "$scratch/bad_lengths"
refuse 2 1 'train.batch = 24' predict "$tiny" --machine "$scratch/here.toml" --ranks 7
refuse 2 1 'no row is left' fit "$paper/paper_figures.csv" --figures 10 --machine "$h100" --output "$scratch/none.toml"
refuse 2 1 'tiny.toml:1: the first line is not' fit "$tiny" --machine "$h100" --output "$scratch/none.toml"
refuse 2 1 'calibrate: .*fp31|fp31' calibrate --output "$scratch/none.toml" --precision fp31
[[ ! -e $scratch/none.toml ]] || die "what is refused left a file"
finish
