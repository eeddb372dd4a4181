#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# Ulysses and BASP are one training: their losses agree over 800 steps to rounding in fp64, and in bf16 to what rounding
# to bf16 does. SGD and a rate at which the loss does not leap: where it does, rounding grows.
set -euo pipefail
# shellcheck source=tests/regression/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
small=(model.hidden=32 model.intermediate=64 model.heads=8 model.kv_heads=8 model.vocabulary=128 train.sequence_length=32
  train.batch=2 train.optimizer=sgd train.learning_rate=0.05 train.warmup_steps=0 verify.enabled=false)

train() { # train SYSTEM PRECISION STEPS
  expect_valid 4 run "$tiny" "${small[@]}" "parallel.system=$1" "train.precision=$2" "train.steps=$3" \
    "output.file=$scratch/$1-$2.h5"
}
# Largest relative difference of any step's loss.
difference() { awk '$1 == "loss" { print $4 }' "$scratch/out"; }
compare() { # compare FILE FILE [OPTION ...]
  minisp 1 compare "$scratch/$1.h5" "$scratch/$2.h5" "${@:3}"
}

for system in ulysses basp; do train "$system" fp64 800; done
compare basp-fp64 ulysses-fp64 --tolerance 1e-12
expect_code 0
expect_out '^VALID: yes'
echo "fp64, 800 steps: losses differ by at most $(difference)"

# What rounding to bf16 does to a loss is what it is away from that of the same steps in fp32. Had the two systems no
# rounding in common, they would be apart by two such deviations, independent of each other: by their root of two. They
# have most in common, and differ where sums of another order round differently.
for system in ulysses basp; do train "$system" bf16 200; done
train ulysses fp32 200
compare ulysses-bf16 ulysses-fp32 --tolerance 1 # one that all steps are within: the largest is shown
noise=$(difference)
compare basp-bf16 ulysses-bf16 --tolerance 1
expect_code 0
awk -v apart="$(difference)" -v noise="$noise" 'BEGIN { exit !(noise > 0 && apart <= sqrt(2) * noise) }' ||
  die "in bf16 the systems are apart by $(difference), and bf16 from fp32 by $noise"
echo "bf16, 200 steps: losses differ by at most $(difference), and from those in fp32 by $noise"
finish
