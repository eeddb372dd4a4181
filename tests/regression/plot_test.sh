#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# The scripts of scripts/plot: what they show is what the result files hold, they ask for nothing from elsewhere, and
# what they cannot read ends in one line that says what to do.
set -euo pipefail

# The first Python that has what they need; MINISP_PYTHON names another one.
python=
for candidate in ${MINISP_PYTHON:+"$MINISP_PYTHON"} python3 /usr/bin/python3; do
  if "$candidate" -c 'import h5py, matplotlib, numpy' 2>/dev/null; then python=$candidate; break; fi
done
if [[ -z $python ]]; then
  echo "SKIPPED: no Python here has h5py and matplotlib (Debian: apt-get install python3-h5py python3-matplotlib)"
  exit 77
fi

# shellcheck source=tests/regression/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
small=(train.batch=2 train.steps=3 train.warmup_steps=1 train.precision=fp64 train.optimizer=sgd verify.enabled=false)
for system in ulysses basp; do
  expect_valid 4 run "$tiny" "parallel.system=$system" "${small[@]}" "output.file=$scratch/$system.h5"
done
cat >"$scratch/pair.toml" <<SWEEP
[sweep]
deck = "$tiny"
folder = "$scratch/pair"
rounds = 2
[[axis]]
key = "parallel.system"
values = ["ulysses", "basp"]
baseline = "ulysses"
SWEEP
expect_valid 4 sweep "$scratch/pair.toml" "${small[@]}"
"$python" -B "$MINISP_SOURCE/tests/regression/plot_test.py" "$python" "$MINISP_SOURCE/scripts/plot" "$scratch"
finish
