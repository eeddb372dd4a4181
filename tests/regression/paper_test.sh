#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# scripts/run_paper.sh and scripts/demo.sh from end to end on the emulated cluster, at sizes that say nothing about speed.
# Exit code 77: the cluster, or Python's packages for figures, are missing here, which it said itself.
set -euo pipefail
# shellcheck source=tests/regression/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

start() { # start WORD ...: a script, as `minisp` in common.sh
  command=("$@")
  code=0
  "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
  checks=$((checks + 1))
}
refuse_script() { # refuse_script REGEX WORD ...
  start "${@:2}"
  expect_code 2
  grep -Eq -- "$1" "$scratch/err" || die "the error does not match '$1'"
}
paper=("$MINISP_SOURCE/scripts/run_paper.sh" --program "$MINISP")

# What is wrong is refused before anything is made.
folder=$scratch/paper
refuse_script 'no folder' "${paper[@]}"
refuse_script 'two folders' "${paper[@]}" "$folder" "$folder-2"
refuse_script 'unknown option --fast' "${paper[@]}" --fast "$folder"
refuse_script '--calibration slow: ' "${paper[@]}" --calibration slow "$folder"
refuse_script '--only 2: ' "${paper[@]}" --only 2 "$folder"
refuse_script 'no program at ' "${paper[@]}" --program "$scratch/none" "$folder"
refuse_script 'no sweep .*/figure7-small.toml' "${paper[@]}" --sweeps "$scratch" --only 7 "$folder"
start "${paper[@]}" --help
expect_code 0
[[ ! -e $folder ]] || die "what is refused left a folder"

# Figure 8 with fewer and shorter sequences. The rate is looked for, whatever it comes to at such sizes.
mkdir "$scratch/sweeps"
sed -e "s|^deck = .*|deck = \"$MINISP_SOURCE/inputs/demo.toml\"|" -e 's/^values = \[1, 2, 4, 8\]/values = [2, 8]/' \
  -e 's/^train.sequence_length = .*/train.sequence_length = 64/' "$MINISP_SOURCE/inputs/paper/figure8-small.toml" \
  >"$scratch/sweeps/figure8-small.toml"
short=("${paper[@]}" --calibration quick --sweeps "$scratch/sweeps" --only 8 "$folder" sweep.rounds=1 train.steps=2)
start "${short[@]}"
if [[ $code -eq 3 ]]; then
  cat "$scratch/err"
  exit 77
fi
expect_code 0
[[ $(grep -c '^round 1/1 ' "$folder/figure8/llama3.2-1b.log") -eq 4 ]] || die "not four runs"
expect_out '^VALID: yes$'
# The cluster is calibrated, and the model's numbers stand beside the measured ones, of every phase.
expect_out '^MODEL: steps within 10 %: [0-4] of 4; median off [0-9.]+ %, worst [0-9.]+ %$'
[[ -s $folder/machine.toml ]] || die "no machine file"
for phase in step mlp 'exchange_qkv forward'; do
  grep -Eq "^8,llama3.2-1b_B2_S8192_ulysses,$phase,[0-9.e-]+,[0-9.e-]+,-?[0-9.]+$" "$folder/prediction.csv" || die "no prediction of $phase"
done
[[ -s $folder/figures/figure8.svg && -s $folder/figure8/sweep.h5 ]] || die "no figure, or no sweep"
grep -Eq '^[1-9][0-9]*(k|m|g)bit$' "$folder/figure8/llama3.2-1b.rate" || die "no rate"

# Every row of the paper's is in the summary, and what was run has a number. At B = 8 BASP has no all-to-all.
while IFS=, read -r figures model ranks batch length metric rest; do
  [[ $figures != fig ]] || continue
  grep -Eq "^${figures##*/},$model,$ranks,$batch,$length,$metric" "$folder/summary.csv" ||
    die "no row of figure $figures, $model, B=$batch, $metric in the summary (of $rest)"
done <"$MINISP_SOURCE/inputs/paper/paper_figures.csv"
for row in '8,llama3.2-1b,8,2,8192,e2e_speedup,1.10,[0-9.]+,[0-9.]+,' '8,llama3.2-1b,8,2,8192,a2a_pct_ulysses,26.9,[0-9.]+,[0-9.]+,' \
  '8,llama3.2-1b,8,8,8192,a2a_pct_basp,0.5,0,0,' '8,llama3.2-1b,8,8,8192,a2a_speedup,85,,' '7,qwen3-8b,8,2,16384,a2a_pct_basp,15.5,,'; do
  grep -Eq "^$row" "$folder/summary.csv" || die "no row '$row' in $(<"$folder/summary.csv")"
done

# All of it is kept the second time, and another rate is not mixed with the first one.
before=$(md5sum "$folder"/figure8/*/round-1.h5 "$folder"/figure8/rate/*/*/*/round-1.h5 "$folder/figure8/llama3.2-1b.rate")
start "${short[@]}"
expect_code 0
expect_no_out '^round '
[[ $(grep -c '^kept ' "$scratch/out") -eq 4 ]] || die "not all of it is kept"
md5sum --check --quiet <<<"$before" || die "a finished result has changed"
refuse_script '--rate 77mbit: figure8, llama3.2-1b was begun over a link of ' "${short[@]}" --rate 77mbit

# The demo chooses a rate, trains twice, compares and shows both.
start "$MINISP_SOURCE/scripts/demo.sh" --program "$MINISP" --results "$scratch/demo" train.steps=2 train.warmup_steps=1 \
  train.sequence_length=1024
expect_code 0
expect_out '^== 8 ranks on two emulated nodes, joined by a link of [0-9]+mbit$'
expect_out '^  seconds a step +[0-9.]+ +[0-9.]+$'
expect_out '^  tokens a second +[1-9][0-9]* +[1-9][0-9]*$'
expect_out '^  of the step in all-to-all +[0-9.]+ % +[0-9.]+ %$'
expect_out '^  speed-up of BASP over Ulysses: [0-9.]+$'
expect_out '^  verdict: VALID$'
[[ -s $scratch/demo/ulysses.h5 && -s $scratch/demo/basp.h5 ]] || die "the demo left no results"
refuse_script 'demo exists; name another folder' "$MINISP_SOURCE/scripts/demo.sh" --program "$MINISP" --results "$scratch/demo"
finish
