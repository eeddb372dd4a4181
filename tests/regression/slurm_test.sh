#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# The batch scripts under a real Slurm, on two emulated hosts: a job that runs through; one that is signalled, queues
# itself again and goes on from its checkpoint; and an end that leaves nothing behind. Exit code 77: it cannot run here.
set -euo pipefail
# shellcheck source=tests/regression/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cluster=$MINISP_SOURCE/scripts/emulate_cluster
export MINISP

code=0
command=("$cluster" --check --slurm)
"${command[@]}" >"$scratch/out" 2>&1 || code=$?
if [[ $code -eq 3 ]]; then
  cat "$scratch/out"
  exit 77
fi
expect_code 0
cd "$scratch" # jobs leave their logs and results where they are submitted
deck=("$tiny" parallel.system=ulysses train.batch=2 verify.enabled=false)

# The signal comes as Slurm sends it before the time limit: to the job's ranks, not to its script.
cat >"$scratch/jobs.sh" <<'JOBS'
set -euo pipefail
batch=$MINISP_SOURCE/scripts/batch
submit() { sbatch --parsable -N 2 --ntasks-per-node=2 "$@"; }
wait_for() { # wait_for JOB FILE: its last state; sbatch --wait looks ever more seldom
  for _ in {1..900}; do
    scontrol show job "$1" >"$2"
    if grep -q 'JobState=\(COMPLETED\|FAILED\|CANCELLED\)' "$2"; then return; fi
    sleep 0.1
  done
}
wait_for "$(submit --output=through.log "$batch/slurm.sh" "$@")" through
job=$(submit --output=restarted.log "$batch/slurm_restart.sh" "$@")
for _ in {1..600}; do # the run minds signals when it prints this
  if grep -qs '^loss     at least' restarted.log; then break; fi
  sleep 0.1
done
scancel --signal=USR1 "$job"
wait_for "$job" restarted
JOBS
command=("$cluster" --slurm --ranks-per-host 2 -- bash "$scratch/jobs.sh" "${deck[@]}" train.steps=8)
"${command[@]}" >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
cat through through.log restarted restarted.log >>"$scratch/err" 2>/dev/null || true # for what die() shows
expect_code 0

expect_in() { grep -Eq -- "$2" "$1" || die "$1: no line matches '$2'"; }
expect_in through 'ExitCode=0:0'
expect_in through.log '^machine  4 ranks on 2 nodes: node0, node1$'
expect_in through.log '^VALID: yes$'
compgen -G 'minisp-*.h5' >/dev/null || die "the job left no result"
expect_in restarted.log '^STOPPED: by SIGUSR1, after step [0-9]+ of 10\. Go on with --restart saved-'
expect_in restarted.log '^restart  saved-[0-9]+/step-[0-9]+\.h5, after step [0-9]+$'
expect_in restarted.log '^VALID: yes$'
expect_in restarted 'Restarts=1 '
expect_in restarted 'JobState=COMPLETED '
expect_in restarted 'ExitCode=0:0'

# Interrupted while a job runs.
set -m
"$cluster" --slurm --ranks-per-host 1 -- sbatch --wait -N 2 --ntasks-per-node=1 --output=cut.log \
  "$MINISP_SOURCE/scripts/batch/slurm.sh" "${deck[@]}" train.steps=100000 >"$scratch/out" 2>&1 &
run=$!
trap 'kill "$run" 2>/dev/null || true; rm -rf "$scratch"' EXIT
for _ in {1..600}; do
  if grep -qs '^loss     at least' cut.log; then break; fi
  sleep 0.1
done
cp cut.log "$scratch/err" # for what die() shows
grep -q '^loss     at least' cut.log || die "the job did not start"
kill -TERM "$run" || die "the cluster has ended before its time"
code=0
wait "$run" || code=$?
trap 'rm -rf "$scratch"' EXIT
expect_code 143
[[ $(ip netns list) != *"minisp-$run-"* && ! -e /dev/shm/minisp-$run ]] || die "namespaces or shared memory of run $run are left"
# Daemons and ranks carry the cluster's folder or the deck in their command lines.
if pgrep -f "train.steps=100000" >/dev/null; then die "ranks are left"; fi
echo "slurm_test.sh: all checks passed"
