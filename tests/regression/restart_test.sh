#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# Checkpoints as a user meets them: restarts, signals, the time limit, refusals, damaged files, a full disk.
# shellcheck disable=SC2046 # result() is several words
set -euo pipefail
# shellcheck source=tests/regression/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The tiny deck with eight steps in fp64: one warms up, seven are timed.
sed -e 's/^batch = .*/batch = 2/; s/^steps = .*/steps = 7\nprecision = "fp64"/; s/^warmup_steps = .*/warmup_steps = 1/' \
  "$tiny" >"$scratch/deck.toml"
printf '[verify]\nenabled = false\n' >>"$scratch/deck.toml"
deck=("$scratch/deck.toml")
saved=$scratch/saved
result() { echo "output.file=$scratch/$1.h5" output.weights=true output.overwrite=true; }
basp=(parallel.system=basp)
ulysses=(parallel.system=ulysses)

expect_files() { # expect_files FOLDER NAME ...
  local folder=$1
  shift
  held=$(find "$folder" -mindepth 1 -printf '%f\n' | sort | paste -sd' ')
  [[ $held == "$*" ]] || die "$folder holds '$held', not '$*'"
}

# Under BASP on 8 ranks, all of it; every third step, and the last, of which two stay.
expect_valid 8 run "${deck[@]}" "${basp[@]}" "checkpoint.folder=$saved" checkpoint.every=3 \
  $(result whole)
expect_out '^CHECKPOINTS: 3 saved'
expect_out 'scalars, stop request'
expect_files "$saved" step-000006.h5 step-000008.h5

# A first half, and the rest: on the same ranks bit for bit the same.
half=$scratch/half
expect_valid 8 run "${deck[@]}" "${basp[@]}" "checkpoint.folder=$half" train.steps=3
expect_files "$half" step-000004.h5
expect_valid 8 run "${deck[@]}" "${basp[@]}" --restart "$half" "checkpoint.folder=$scratch/again" \
  $(result again)
expect_out "^restart +$half/step-000004.h5, after step 4"
expect_out '^step +5/8 .*warm-up'
expect_out '^STEP: .* \(median of 3\)'
cmp "$scratch/again/step-000008.h5" "$saved/step-000008.h5" || die "the restarted run is another"
expect_valid 1 compare "$scratch/again.h5" "$scratch/whole.h5" --tolerance 1e-300
# Under Ulysses on 4, sharded, and alone.
expect_valid 4 run "${deck[@]}" "${ulysses[@]}" parallel.sharding=zero3 --restart "$half" \
  $(result ulysses)
expect_valid 1 run "${deck[@]}" "${ulysses[@]}" --restart "$half/step-000004.h5" $(result alone)
for file in ulysses alone; do
  expect_valid 1 compare "$scratch/$file.h5" "$scratch/whole.h5" --tolerance 1e-10
  expect_out '^loss +1 +0 '
  expect_out 'from step 4 on'
done
# A dry run looks at the checkpoint, too.
expect_valid 4 run "${deck[@]}" "${ulysses[@]}" --restart "$half" --dry-run
expect_out 'after step 4'
expect_no_out '^step'

# What must agree is refused by name, before a step; what may change is noted.
again=("${deck[@]}" "${ulysses[@]}" --restart "$half")
refuse 2 2 "$half/step-000004.h5: train.seed was 1 .* 2 now.*Set train.seed=1" run "${again[@]}" train.seed=2
refuse 2 2 'model.layers was 2 .* 3 now' run "${again[@]}" model.layers=3
refuse 2 2 'train.optimizer was "adamw"' run "${again[@]}" train.optimizer=sgd
expect_no_out '^step'
expect_valid 4 run "${again[@]}" train.learning_rate=1e-3 --dry-run
expect_out '^NOTE: train.learning_rate is 0.001 .* 0.01'
refuse 2 2 '4 steps are done, .* 4 in all. Raise train.steps' run "${deck[@]}" "${ulysses[@]}" --restart "$half" \
  train.steps=3
# Nothing that was there is lost, nor taken for what it is not.
refuse 2 2 "$half: holds step-000004.h5, .*--restart" run "${deck[@]}" "${ulysses[@]}" "checkpoint.folder=$half"
refuse 2 2 "$saved: holds step-000008.h5" run "${again[@]}" "checkpoint.folder=$saved"
expect_files "$half" step-000004.h5
mkdir "$scratch/empty"
refuse 2 2 'no checkpoint in this folder' run "${deck[@]}" --restart "$scratch/empty"
refuse 2 2 'no such file or folder' run "${deck[@]}" --restart "$scratch/none"
refuse 2 2 'whole.h5: does not begin as a checkpoint' run "${deck[@]}" --restart "$scratch/whole.h5"
for limit in 0 1:2 00:61:00 1h -5; do
  refuse 2 2 '--time-limit: ' run "${deck[@]}" "--time-limit=$limit" "checkpoint.folder=$scratch/empty"
done
refuse 2 2 '--time-limit: .*checkpoint.folder' run "${deck[@]}" --time-limit 10
refuse 2 2 'checkpoint.every: ' run "${deck[@]}" checkpoint.every=3
refuse 2 2 'checkpoint.keep: ' run "${deck[@]}" "checkpoint.folder=$scratch/empty" checkpoint.keep=0
expect_files "$scratch/empty"

# A damaged file is named, never loaded, and the one before it is pointed to.
flip() { # flip FILE OFFSET BIT
  local byte
  byte=$(od -An -tu1 -j "$2" -N1 "$1")
  # shellcheck disable=SC2059 # the format is the byte
  printf "\\x$(printf %x $((byte ^ (1 << $3))))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
newest=$saved/step-000008.h5
size=$(stat -c %s "$newest")
RANDOM=5
for _ in 1 2 3; do
  offset=$(((RANDOM * 32768 + RANDOM) % size)) bit=$((RANDOM % 8))
  flip "$newest" "$offset" "$bit"
  refuse 2 2 "step-000008.h5: .*damaged.*step-000006.h5" run "${deck[@]}" --restart "$saved" train.steps=9
  flip "$newest" "$offset" "$bit"
done
cp "$newest" "$scratch/whole-8.h5"
truncate -s -4097 "$newest"
refuse 2 2 "step-000008.h5: .*$((size - 4097)) bytes, but $size" run "${deck[@]}" --restart "$saved" train.steps=9
truncate -s 100 "$newest"
refuse 2 2 'step-000008.h5: ' run "${deck[@]}" --restart "$saved" train.steps=9
expect_no_out '^step'
rm "$newest"
expect_valid 2 run "${deck[@]}" --restart "$saved" --dry-run
expect_out 'after step 6'

# Asked to stop: all ranks at the same step, with a checkpoint, and an exit code of its own.
sed -e 's/^steps = .*/steps = 9998/' "$tiny" >"$scratch/long.toml"
long=("$scratch/long.toml" verify.enabled=false "${ulysses[@]}")
stopped() { # stopped NAME: the run that has just ended, of which one rank got that signal
  expect_code 4
  expect_out "^STOPPED: by $1, after step [0-9]+ of 10000. Go on with --restart $stop/step-[0-9]+.h5$"
  expect_no_out '^FOM'
  if grep -q '^minisp: ' "$scratch/err"; then die "an error is printed"; fi
  done_steps=$(sed -n 's/^STOPPED: .* after step \([0-9]*\) of .*/\1/p' "$scratch/out")
  expect_files "$stop" "$(printf 'step-%06d.h5' "$done_steps")"
  # Several steps: a busy machine takes a core away between the phases of one or another.
  expect_valid 2 run "${long[@]}" --restart "$stop" "train.steps=$((done_steps + 6))" train.warmup_steps=0
  expect_out "^step +$((done_steps + 1))/$((done_steps + 6)) "
}
stop_by() { # stop_by SIGNAL
  stop=$scratch/stop-$1
  command=("${launcher[@]}" 4 "$MINISP" run "${long[@]}" "checkpoint.folder=$stop")
  : >"$scratch/out" # what the last run printed is not this one's
  "${command[@]}" >"$scratch/out" 2>"$scratch/err" </dev/null &
  local job=$! ranks
  for _ in {1..600}; do
    if grep -q '^step' "$scratch/out"; then break; fi
    sleep 0.1
  done
  mapfile -t ranks < <(pgrep -f "^$MINISP run .*checkpoint.folder=$stop")
  [[ ${#ranks[@]} -eq 4 ]] || die "${#ranks[@]} ranks run, not 4"
  kill -s "$1" "${ranks[2]}"
  code=0
  wait "$job" || code=$?
  stopped "SIG$1"
}
stop_by USR1
stop_by TERM
stop=$scratch/stop-time
minisp 4 run "${long[@]}" "checkpoint.folder=$stop" --time-limit 00:00:03
stopped 'the time limit'

# A full disk: room for one checkpoint of 4.2 MB, not for two. The first stays, and is good.
full=$scratch/full
mkdir "$full"
if [[ $(id -u) -eq 0 ]] && mount -t tmpfs -o size=6m minisp-test "$full" 2>/dev/null; then
  trap 'umount "$full"; rm -rf "$scratch"' EXIT
  few=("$tiny" train.steps=4 train.warmup_steps=0 verify.enabled=false "${ulysses[@]}")
  refuse 3 4 "$full/step-000002.h5: no room .*checkpoint.folder" run "${few[@]}" "checkpoint.folder=$full" \
    checkpoint.every=1 checkpoint.keep=1
  expect_files "$full" step-000001.h5
  expect_valid 2 run "${few[@]}" --restart "$full"
  expect_out 'after step 1'
else
  echo "restart_test.sh: no full disk here (it takes root and mounts)"
fi
finish
