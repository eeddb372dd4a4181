#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# A sweep runs its cases in turn, keeps what is finished, goes on after a kill, and reports their ratios.
set -euo pipefail
# shellcheck source=tests/regression/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

sweep=$scratch/pair.toml
cat >"$sweep" <<SWEEP
[sweep]
deck = "$tiny"
folder = "$scratch/out-pair"
rounds = 2
[set]
train.steps = 3
train.warmup_steps = 1
train.batch = 2
[[axis]]
key = "parallel.system"
values = ["ulysses", "basp"]
baseline = "ulysses"
SWEEP
results=$scratch/out-pair

# Nothing is made by a dry run, also for ranks that are not here.
expect_valid 1 sweep "$sweep" --dry-run --ranks 8
expect_out '^PLAN: basp  basp: 8 ranks, 2 groups of 4, .* a rank$'
[[ ! -e $results ]] || die "a dry run made $results"

# Rounds in turn: ulysses, basp, ulysses, basp.
expect_valid 4 sweep "$sweep"
[[ $(grep -c '^round ' "$scratch/out") -eq 4 ]] || die "not four runs"
[[ $(grep '^round ' "$scratch/out" | awk '{print $2, $3}' | tr '\n' ' ') == \
  "1/2 ulysses 1/2 basp 2/2 ulysses 2/2 basp " ]] || die "the cases do not take turns"
expect_out '^CASE: ulysses +2( +[0-9.]+){7}$'
expect_out '^WAIT: basp +[0-9.]+ +[0-3] +[0-9.]+ +[0-9.]+ +[0-9.]+ % \(rank [0-3]\) to [0-9.]+ % \(rank [0-3]\)$'
expect_out '^RATIO: basp +ulysses +2 +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.e-]+$'
expect_out '^VALID: yes$'
[[ -s $results/sweep.h5 && -s $results/basp/round-2.h5 ]] || die "no result files"
# The files are those of runs, and what the deck and the sweep say is in them.
expect_valid 1 compare "$results/ulysses/round-1.h5" "$results/basp/round-1.h5"
expect_out '^VALID: yes'

# Everything is kept; more rounds are added to it.
before=$(md5sum "$results"/*/round-*.h5)
expect_valid 4 sweep "$sweep"
[[ $(grep -c '^kept ' "$scratch/out") -eq 4 ]] || die "not everything is kept"
expect_no_out '^round '
expect_valid 4 sweep "$sweep" sweep.rounds=3 --only basp
[[ $(grep -c '^round 3/3 ' "$scratch/out") -eq 2 ]] || die "not both: a case runs with its baseline"
md5sum --check --quiet <<<"$before" || die "a finished result has changed"

# Another experiment's results, and ranks for which they are not.
refuse 2 4 'round-1.h5: .*train.steps = 3, the case now 4' sweep "$sweep" train.steps=4
refuse 2 2 'round-1.h5: .*4 ranks' sweep "$sweep"
refuse 2 4 "no case's name contains 'base'" sweep "$sweep" --only base
refuse 2 4 'case ulysses: .*train.sequence_length' sweep "$sweep" train.sequence_length=90 "sweep.folder=$scratch/none"
refuse 2 4 'sweep.ranks: the sweep is for 8 ranks, and this job has 4' sweep "$sweep" sweep.ranks=8 "sweep.folder=$scratch/none"
refuse 2 4 'a sweep runs on the ranks of its job' sweep "$sweep" --ranks 8
refuse 2 4 'no_such.toml: ' sweep "$scratch/no_such.toml"
[[ ! -e $scratch/none ]] || die "what is refused left a folder"
md5sum --check --quiet <<<"$before" || die "a refused sweep changed a finished result"

# Killed in the second case or later: what was finished stays, the rest is done by the next start.
cut=(sweep "$sweep" "sweep.folder=$scratch/cut" sweep.rounds=1000)
"${launcher[@]}" 4 "$MINISP" "${cut[@]}" >"$scratch/cut.log" 2>&1 </dev/null &
running=$!
for _ in {1..600}; do
  [[ ! -e $scratch/cut/ulysses/round-1.h5 ]] || break
  sleep 0.1
done
kill -KILL "$running"
wait "$running" 2>/dev/null || true
for _ in {1..100}; do # ranks notice that their launcher is gone
  pgrep -f "$scratch/cut" >/dev/null || break
  sleep 0.1
done
command=("${cut[@]}")
code=0
[[ -e $scratch/cut/ulysses/round-1.h5 && ! -e $scratch/cut/basp/round-1000.h5 ]] || die "not killed in the middle"
first=$(md5sum "$scratch/cut/ulysses/round-1.h5")
# As a kill while it is written leaves it; a fast machine has finished it before its ranks notice.
rm -f "$scratch/cut/basp/round-2.h5"
touch "$scratch/cut/basp/round-2.h5.partial"
expect_valid 4 sweep "$sweep" "sweep.folder=$scratch/cut" sweep.rounds=2
expect_out '^kept .*ulysses/round-1.h5$'
expect_out '^VALID: yes$'
md5sum --check --quiet <<<"$first" || die "the finished result has changed"
[[ ! -e $scratch/cut/basp/round-2.h5.partial ]] || die "a partial file is left"

# One INVALID run makes the sweep INVALID, and says which.
cat >"$scratch/wild.toml" <<SWEEP
[sweep]
deck = "$tiny"
folder = "$scratch/wild"
rounds = 1
[set]
train.steps = 3
[[case]]
name = "tame"
[[case]]
name = "wild"
baseline = "tame"
train.learning_rate = 1e30
SWEEP
minisp 2 sweep "$scratch/wild.toml"
expect_code 1
expect_out '^INVALID: case wild, round 1: steps whose loss or gradient is not finite'
expect_no_out '^INVALID: case tame'
expect_out '^VALID: no$'
finish
