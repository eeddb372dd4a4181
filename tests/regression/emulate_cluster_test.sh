#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# emulate_cluster_test.sh CLUSTER PROBE: scripts/emulate_cluster gives MPI the hosts that it promises, and leaves
# nothing behind. Exit code 77: it cannot run here, which it said itself.
set -euo pipefail
cluster=$1
probe=$2
output=$(mktemp)
run=
trap 'if [[ -n $run ]]; then kill "$run" 2>/dev/null || true; fi; rm -f "$output"' EXIT

die() {
  echo "FAILED: $*"
  cat "$output"
  exit 1
}
expect_line() { grep -qx "$1" "$output" || die "no line '$1'"; }
expect_code() { # expect_code WANTED COMMAND ...
  local wanted=$1 code=0
  shift
  "$@" >"$output" 2>&1 || code=$?
  [[ $code -eq $wanted ]] || die "exit code $code, not $wanted: $*"
}
# Interfaces of this machine itself; a run must not change them.
interfaces() { ip -o link show | awk -F': ' '{print $2}' | sort; }
expect_nothing_left() { # expect_nothing_left PID
  if [[ $(ip netns list) == *"minisp-$1-"* ]]; then die "namespaces of run $1 are left"; fi
  [[ $(interfaces) == "$interfaces_before" ]] || die "this machine's interfaces changed"
  if pgrep -f "^$probe forever" >/dev/null; then die "ranks are left"; fi
}

# What is wrong on the command line is refused before anything is made.
expect_code 2 "$cluster"
expect_code 2 "$cluster" --hosts 1 -- true
expect_code 2 "$cluster" --rate fast -- true
expect_code 2 "$cluster" --rate 1gbit,fast -- true
expect_code 2 "$cluster" --rate 1gbit, -- true
expect_code 2 "$cluster" --rate 1gbit,1gbit,1gbit -- true
grep -q '3 rates for 2 hosts' "$output" || die "no word of the number of rates"
expect_code 2 "$cluster" --ranks-per-host 0 -- true
expect_code 2 "$cluster" --no-such-option -- true

code=0
"$cluster" --check >"$output" 2>&1 || code=$?
if [[ $code -eq 3 ]]; then
  cat "$output"
  grep -q '^emulate_cluster: ' "$output" || die "no reason given"
  exit 77
fi
[[ $code -eq 0 ]] || die "--check: exit code $code"
interfaces_before=$(interfaces)

# Two hosts of two ranks, ranks in order; 50 Mbit/s each way carry the 1 MiB that crosses in no less than 168 ms. So do
# links of which one is that slow, whichever it is: all that crosses takes both.
for rate in 50mbit 50mbit,1gbit 1gbit,50mbit; do
  expect_code 0 "$cluster" --ranks-per-host 2 --rate "$rate" -- "$probe"
  for rank in 0 1 2 3; do expect_line "rank $rank host node$((rank / 2)) of 2"; done
  read -r all node < <(sed -n 's/.* \([0-9]*\) us over all, \([0-9]*\) us over a node/\1 \2/p' "$output")
  # The queue lets 256 KiB through at once, so a bound of the remaining 768 KiB, 126 ms.
  [[ $all -ge 126000 ]] || die "the link is faster than its limit $rate: $all us"
  [[ $node -lt $((all / 4)) ]] || die "ranks of a host are as far apart as hosts: $node us, $all us"
done

# More hosts hang on a bridge.
expect_code 0 "$cluster" --hosts 3 --ranks-per-host 1 --rate 1gbit "$probe"
for rank in 0 1 2; do expect_line "rank $rank host node$rank of 1"; done

# The program's exit code comes through, and a run that ends by itself leaves nothing.
"$cluster" --ranks-per-host 1 -- "$probe" 7 >"$output" 2>&1 &
run=$!
code=0
wait "$run" || code=$?
[[ $code -eq 7 ]] || die "exit code $code, not the program's 7"
expect_nothing_left "$run"

# Interrupted in the middle of an exchange. Job control: else the shell starts the run with SIGINT ignored.
set -m
for signal in INT TERM; do
  : >"$output" # here: the run empties it when it gets to it, and what the last one left would be read till then
  "$cluster" --ranks-per-host 2 --rate 50mbit -- "$probe" forever >>"$output" 2>&1 &
  run=$!
  for _ in {1..150}; do
    if grep -q 'us over all' "$output"; then break; fi
    sleep 0.2
  done
  grep -q 'us over all' "$output" || die "the run did not start"
  kill -s "$signal" "$run"
  code=0
  wait "$run" || code=$?
  wanted=143
  if [[ $signal == INT ]]; then wanted=130; fi
  [[ $code -eq $wanted ]] || die "SIG$signal: exit code $code, not $wanted"
  expect_nothing_left "$run"
done

# An ordinary user is told what is missing.
if command -v setpriv >/dev/null; then
  expect_code 3 setpriv --reuid=65534 --clear-groups "$(command -v bash)" "$cluster" -- true
  grep -q 'needs root' "$output" || die "no word of root"
fi
echo "emulate_cluster: all checks passed"
