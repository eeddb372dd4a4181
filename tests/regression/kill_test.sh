#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# kill_test.sh KILLS [SEED]: one rank after another is killed at a random moment, often while a checkpoint is being
# written. The job has to end within seconds with a message, and the next run goes on from the newest checkpoint.
set -euo pipefail
# shellcheck source=tests/regression/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
kills=${1:-50}
RANDOM=${2:-1}
seconds_to_end=30

# A model so small that a step is little beside its checkpoint, one after every step.
saved=$scratch/saved
sed -e 's/^batch = .*/batch = 4/; s/^sequence_length = .*/sequence_length = 24/; s/^steps = .*/steps = 10000/' \
  -e 's/^warmup_steps = .*/warmup_steps = 0\nprecision = "fp64"/; s/^layers = .*/layers = 1/; s/^hidden = .*/hidden = 48/' \
  -e 's/^intermediate = .*/intermediate = 64/; s/^vocabulary = .*/vocabulary = 128/' \
  -e '/^system = /d; /^\[parallel\]/d' "$tiny" >"$scratch/deck.toml"
printf '[verify]\nenabled = false\n[checkpoint]\nfolder = "%s"\nevery = 1\n' "$saved" >>"$scratch/deck.toml"
deck=("$scratch/deck.toml")
ways=(parallel.sharding=none parallel.sharding=zero1 parallel.sharding=zero3)
systems=(parallel.system=ulysses parallel.system=basp parallel.system=data-parallel)

newest() { find "$saved" -name 'step-*.h5' -printf '%f\n' 2>/dev/null | sort | tail -n 1 || true; }
in_ms() { echo $(($(date +%s%N) / 1000000)); }

none_yet=0 in_writing=0 slowest=0 went_on=0
for ((i = 0; i < kills; ++i)); do
  ranks=$((1 + RANDOM % 4))
  if [[ $ranks -eq 3 ]]; then ranks=4; fi
  before=$(newest)
  restart=()
  if [[ -n $before ]]; then restart=(--restart "$saved"); fi
  command=("${launcher[@]}" "$ranks" "$MINISP" run "${deck[@]}" "${ways[RANDOM % 3]}" "${systems[RANDOM % 3]}"
    "${restart[@]}")
  "${command[@]}" >"$scratch/out" 2>"$scratch/err" </dev/null &
  job=$!
  code=0
  # Most are killed somewhere in the steps, some while they start.
  if [[ $((RANDOM % 6)) -ne 0 ]]; then
    for _ in {1..1500}; do
      if [[ $(newest) != "$before" ]]; then break; fi
      if ! kill -0 "$job" 2>/dev/null; then break; fi
      sleep 0.02
    done
  fi
  sleep "0.$(printf %03d $((RANDOM % 300)))"
  pids=()
  for _ in {1..500}; do
    mapfile -t pids < <(pgrep -f "^$MINISP run $scratch/deck.toml" || true)
    if [[ ${#pids[@]} -eq $ranks ]]; then break; fi
    sleep 0.02
  done
  [[ ${#pids[@]} -eq $ranks ]] || { wait "$job" || code=$?; die "${#pids[@]} of $ranks ranks run"; }
  kill -KILL "${pids[RANDOM % ranks]}"
  killed_at=$(in_ms)
  for _ in $(seq $((seconds_to_end * 50))); do
    if ! kill -0 "$job" 2>/dev/null; then break; fi
    sleep 0.02
  done
  if kill -0 "$job" 2>/dev/null; then die "kill $i: the job hangs, $seconds_to_end s after a rank was killed"; fi
  took=$(($(in_ms) - killed_at))
  if [[ $took -gt $slowest ]]; then slowest=$took; fi
  wait "$job" || code=$?
  checks=$((checks + 1))
  [[ $code -ne 0 ]] || die "kill $i: exit code 0"
  [[ -s $scratch/err ]] || die "kill $i: no message"
  # An earlier end than by the kill would be a restart that was refused.
  if grep -q '^minisp: ' "$scratch/err"; then die "kill $i: an error of its own"; fi
  if compgen -G "$saved/*.partial" >/dev/null; then in_writing=$((in_writing + 1)); fi
  after=$(newest)
  if [[ -z $after ]]; then
    none_yet=$((none_yet + 1))
    [[ -z $before ]] || die "kill $i: $before is gone"
    continue
  fi
  [[ ! $after < $before ]] || die "kill $i: $after after $before"
  if [[ $after > $before ]]; then went_on=$((went_on + 1)); fi
  # The next round restarts from it; every byte of it is good now.
  if [[ $((i % 5)) -eq 0 ]]; then
    expect_valid 1 run "${deck[@]}" "${ways[0]}" "${systems[0]}" --restart "$saved" --dry-run
    expect_out "^restart +$saved/$after, after step"
  fi
done
[[ -n $(newest) ]] || die "no checkpoint was ever written"
command=("last restart")
expect_valid 2 run "${deck[@]}" "${systems[0]}" --restart "$saved" "train.steps=$((10#$(newest | tr -dc 0-9 | sed 's/5$//') + 8))" \
  "checkpoint.folder=$scratch/end"
echo "kill_test.sh: $kills kills, $went_on of them of runs that had saved more, $in_writing while a checkpoint was written," \
  "$none_yet before there was one; the slowest job took $slowest ms to end"
finish
