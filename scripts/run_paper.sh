#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# The BASP paper's experiments (arXiv:2609.03151) in their scaled form, on two emulated nodes of this machine.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

program=$repository/build/src/minisp
sweeps=$repository/inputs/paper
rate=auto
calibration=full
results=
only=()
overrides=()

usage() {
  cat <<USAGE
Usage: scripts/run_paper.sh [option ...] FOLDER [key=value ...]

Runs the sweeps inputs/paper/figure{1,3,7,8,9,10}-small.toml on 8 ranks that sit on two emulated nodes of this machine
(scripts/emulate_cluster, which needs root). For each figure, and in figure 7 for each model, the rate of the link
between the nodes is chosen first: such that Ulysses spends the paper's share of its step in all-to-all, at one point
(inputs/paper/README.md). FOLDER then holds

  figureN/            HDF5 files (doc/sweeps.md), logs, and under rate/ the runs that the rate was chosen by
  machine.toml        this emulated cluster as the performance model knows it (minisp calibrate)
  summary.csv         the paper's numbers, those measured here and those that the model predicts (doc/reports.md)
  prediction.csv      every phase as measured and as predicted
  figures/            the paper's figures with our numbers beside
  seconds.csv         what each figure took

Started again with the same FOLDER it goes on where it stopped.

  --only FIGURE      1, 3, 7, 8, 9 or 10; may stand several times (default: all)
  --rate RATE        of the link, for all figures, for example 200mbit (default: auto, as above)
  --calibration HOW  of the performance model: full, quick or none (default: full; 4 minutes)
  --program FILE     minisp to run (default: build/src/minisp)
  --sweeps FOLDER    where the sweeps lie (default: inputs/paper)
  key=value          given to all sweeps, for example sweep.rounds=5

Exit codes: 0 all runs are VALID, and in fp64 both systems' losses agree; 1 they are not; 2 wrong option or input;
3 cannot run here.
USAGE
}

while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --only | --rate | --calibration | --program | --sweeps)
      [[ $# -ge 2 ]] || fail 2 "$1 wants a value"
      case $1 in
        --only)
          [[ $2 =~ ^(1|3|7|8|9|10)$ ]] || fail 2 "--only $2: there is no such figure; 1, 3, 7, 8, 9 and 10 are there"
          only+=("$2")
          ;;
        --rate) rate=$2 ;;
        --calibration)
          [[ $2 =~ ^(full|quick|none)$ ]] || fail 2 "--calibration $2: full, quick and none are there"
          calibration=$2
          ;;
        --program) program=$(realpath -m "$2") ;;
        --sweeps) sweeps=$(realpath -m "$2") ;;
      esac
      shift
      ;;
    -*) fail 2 "unknown option $1 (see --help)" ;;
    *=*) overrides+=("$1") ;;
    *)
      [[ -z $results ]] || fail 2 "two folders are given, $results and $1"
      results=$(realpath -m "$1")
      ;;
  esac
  shift
done
[[ -n $results ]] || fail 2 "no folder for the results is given (see --help)"
[[ ! -e $results || -d $results ]] || fail 2 "$results is a file; name a folder"
[[ -x $program ]] || fail 2 "no program at $program: build it first (scripts/quickstart.sh does)"
if [[ ${#only[@]} -eq 0 ]]; then only=(1 3 7 8 9 10); fi
for figure in "${only[@]}"; do
  [[ -r $sweeps/figure$figure-small.toml ]] || fail 2 "no sweep $sweeps/figure$figure-small.toml; see --sweeps"
done
set_python
check_cluster "${rate/auto/10gbit}"
[[ -z $cannot ]] || fail 3 "$cannot"
mkdir -p "$results" || fail 2 "$results cannot be made; name another folder"
stop_on_signals
paper=("$python" -B "$repository/scripts/plot/paper_results.py")

# sweep FIGURE RATE LOG KEY=VALUE|OPTION ...: one start of the program; 0 where all is VALID, 1 where it is not.
sweep() {
  local figure=$1 code=0 log=$3
  set_cluster_launcher "$2"
  shift 3
  logged "$log" "${launcher[@]}" "$program" sweep "$sweeps/$figure-small.toml" "$@" || code=$?
  if [[ $code -gt 1 ]]; then fail "$code" "$figure: the sweep failed; its messages stand in $log"; fi
  return "$code"
}

# Leaves the rate for a model of a figure in figureN/MODEL.rate: fit_rate FIGURE MODEL CASE SHARE
# From short runs of Ulysses, over a fast link and then over the rate that seems right; at most two corrections.
fit_rate() {
  local kept=$results/$1/$2.rate folder=$results/$1/rate/$2 trial=10gbit fitting=$rate answer
  if [[ -s $kept ]]; then
    [[ $rate == auto || $rate == "$(<"$kept")" ]] ||
      fail 2 "--rate $rate: $1, $2 was begun over a link of $(<"$kept"); name another folder"
    return
  fi
  if [[ $rate == auto && $3 == - ]]; then
    fitting=$4 # this figure asks for no share
  elif [[ $rate == auto ]]; then
    mkdir -p "$folder"
    say "$1, $2: the rate at which Ulysses spends $4 % of its step in all-to-all"
    while [[ -n $trial ]]; do
      sweep "$1" "$trial" "$folder/log" --only "$3" "sweep.folder=$folder/$trial" sweep.rounds=1 train.steps=5 \
        train.warmup_steps=1 verify.enabled=false || true
      answer=$("${paper[@]}" rate "$folder" --case "$3" --share "$4") || exit
      read -r fitting trial <<<"$answer"
    done
  fi
  echo "$fitting" >"$kept"
}

# All cases of a model: measure FIGURE MODEL. Those of figure 10, whose times mean nothing, system by system: workspace that
# a first case leaves behind is a large part of the memory of such small ones, and is missed in that of the second.
measure() {
  local fitting part parts=("$2_")
  fitting=$(<"$results/$1/$2.rate")
  say "$1, $2, over a link of $fitting"
  if [[ $1 == figure10* ]]; then parts=(_ulysses _basp); fi
  for part in "${parts[@]}"; do
    sweep "$1" "$fitting" "$results/$1/$2.log" --only "$part" "sweep.folder=$results/$1" \
      ${overrides[@]+"${overrides[@]}"} || status=1
  done
}

# The machine file, over a link of one rate; the others are a matter of --link-factor: calibrate RATE
calibrate() {
  local options=() code=0
  [[ ! -s $results/machine.toml ]] || return 0
  if [[ $calibration == quick ]]; then options=(--quick); fi
  say "This cluster for the performance model, over a link of $1"
  set_cluster_launcher "$1"
  echo "$1" >"$results/machine.rate"
  logged "$results/machine.log" "${launcher[@]}" "$program" calibrate --output "$results/machine.toml" --rounds 2 \
    ${options[@]+"${options[@]}"} || code=$?
  [[ $code -eq 0 ]] || fail "$code" "calibrate failed; its messages stand in $results/machine.log"
}

predict() { # predict FIGURE MODEL LINK_FACTOR
  "$program" predict "$sweeps/$1-small.toml" --machine "$results/machine.toml" --link-factor "$3" \
    --csv "$results/$1/$2.predicted.csv" --overwrite ${overrides[@]+"${overrides[@]}"} >"$results/$1/$2.predicted.log" ||
    fail "$?" "$1: no prediction"
}

status=0
for figure in "${only[@]}"; do
  begin=$SECONDS
  names=("figure$figure")
  if [[ $figure -eq 10 ]]; then names+=(figure10-bf16); fi
  points=$("${paper[@]}" points "$figure") || exit
  for name in "${names[@]}"; do
    mkdir -p "$results/$name"
    while read -r -u 4 model case share; do
      fit_rate "$name" "$model" "$case" "$share"
      measure "$name" "$model"
    done 4<<<"$points"
  done
  [[ -s $results/seconds.csv ]] || echo "figure,seconds" >"$results/seconds.csv"
  echo "$figure,$((SECONDS - begin))" >>"$results/seconds.csv"
  say "Figure $figure took $((SECONDS - begin)) s"
done

# Over the slowest link, where the wire shows most; empty where only figure 10 was run, whose times mean nothing.
slowest=$("${paper[@]}" links "$results") || exit
if [[ $calibration != none && -n $slowest ]]; then calibrate "$slowest"; fi
if [[ -s $results/machine.toml ]]; then
  links=$("${paper[@]}" links "$results" "$(<"$results/machine.rate")") || exit
  while read -r name model factor; do predict "$name" "$model" "$factor"; done <<<"$links"
fi

say "The paper's numbers and ours"
"${paper[@]}" summary "$results" || status=1
"$python" -B "$repository/scripts/plot/paper_figures.py" "$results" --output "$results/figures" --overwrite || status=1
exit "$status"
