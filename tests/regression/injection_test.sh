#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# A slow rank and a slow link, put in by the deck, show in the report as what they are, and never as a result.
set -euo pipefail
# shellcheck source=tests/regression/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
quick=(train.steps=2 train.warmup_steps=1 train.batch=4 verify.enabled=false parallel.system=ulysses)

# percent WORD: of the line "WORD: 12.3 % of the step ..."
percent() { sed -n "s/^$1: \([0-9.]*\) %.*/\1/p" "$scratch/out"; }
larger() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }'; }
# column N ROW: number in the N-th column from the right of the table's row
column() { awk -v row="$2" -v n="$1" 'index($0, row) { print $(NF - n + 1) }' "$scratch/out"; }

# 0.05 s in each of two blocks: in the exchange after attention the three other ranks wait, 0.075 s each step for the
# mean of the four, and little else takes time.
minisp 4 run "$tiny" "${quick[@]}" inject.slow_rank=2 inject.slow_seconds=0.05
expect_code 1
expect_out '^INJECTED: rank 2 computes 1 times as long, and 0.05 s more in each attention'
expect_out '^INVALID: delays injected by the deck'
expect_out '^VALID: no$'
expect_out '^CLOCKS: within [0-9.]+ us of rank 0.s, drift [0-9.]+ us$'
expect_out '^WAIT: [0-9.]+ % of the step, [0-9.]+ % of that for rank 2$'
larger "$(column 2 'all_to_all, exchange_output forward')" 0.06 || die "nobody waits for the slow rank"
larger "$(percent WAIT)" "$(percent WIRE)" || die "a slow rank shows as a slow link"

# 0.05 s on the wire of every collective: 8 exchanges and some others a step.
minisp 4 run "$tiny" "${quick[@]}" inject.link_rank=1 inject.link_seconds=0.05
expect_code 1
expect_out '^INJECTED: collectives with rank 1 take 0.05 s longer on the wire'
expect_out '^VALID: no$'
larger "$(column 1 'all_to_all, exchange_output forward')" 0.08 || die "the slow link does not show"
larger "$(percent WIRE)" "$(percent WAIT)" || die "a slow link shows as a slow rank"

# Without either nothing of it is said.
expect_valid 4 run "$tiny" "${quick[@]}"
expect_no_out 'INJECTED|injected'

refuse 2 4 'inject.slow_rank: .*nothing makes rank 1 slow' run "$tiny" inject.slow_rank=1
refuse 2 4 'inject.slow_rank .*none is named' run "$tiny" inject.slow_seconds=1
refuse 2 4 'a slow link needs a rank and a delay' run "$tiny" inject.link_rank=0
refuse 2 4 'there is no rank 4' run "$tiny" inject.slow_rank=4 inject.slow_factor=2
refuse 2 4 'inject.link_seconds: .*<= 60' run "$tiny" inject.link_rank=0 inject.link_seconds=61
finish
