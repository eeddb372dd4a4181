#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# A transformer trains on 8 ranks under Ulysses and under BASP; both results are compared.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

program=$repository/build/src/minisp
rate=auto
results=
one_host=
overrides=()

usage() {
  cat <<USAGE
Usage: scripts/demo.sh [--program FILE] [--rate RATE] [--results FOLDER] [--one-host] [key=value ...]

Runs inputs/demo.toml twice on 8 ranks, as Ulysses (one group of 8 that exchanges across both nodes) and as BASP
(a group of 4 a sequence, each on one node), and compares the two results. The two nodes are emulated on this
machine (scripts/emulate_cluster), which needs root; otherwise all ranks share one host.

  --program FILE     minisp to run (default: build/src/minisp)
  --rate RATE        rate of the link between the nodes, for example 500mbit (default: auto, so that Ulysses
                     spends about 30 % of its step in all-to-all on this machine, as in the BASP paper)
  --results FOLDER   where logs and HDF5 files go (default: a new folder under results/)
  --one-host         do not emulate two nodes
  key=value          given to both runs, for example train.steps=5

Exit codes: 0 both runs are VALID and agree, 1 they are not, 2 wrong option, 3 cannot run here.
USAGE
}

while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --one-host) one_host=yes ;;
    --program | --rate | --results)
      [[ $# -ge 2 ]] || fail 2 "$1 wants a value"
      case $1 in
        --program) program=$(realpath -m "$2") ;;
        --rate) rate=$2 ;;
        --results) results=$(realpath -m "$2") ;;
      esac
      shift
      ;;
    *=*) overrides+=("$1") ;;
    *) fail 2 "unknown option $1 (see --help)" ;;
  esac
  shift
done
[[ -x $program ]] || fail 2 "no program at $program: build it first (scripts/quickstart.sh does)"
if [[ -z $results ]]; then results=$repository/results/demo-$(date +%Y%m%d-%H%M%S); fi
[[ ! -e $results ]] || fail 2 "$results exists; name another folder with --results"
mkdir -p "$results"

cannot=
if [[ -n $one_host ]]; then
  cannot="--one-host was given"
else
  check_cluster "${rate/auto/10gbit}"
fi
# number SYSTEM NAME: the number in the run's line "NAME: number unit ...".
number() { sed -n "s/^$2: \([0-9.e+-]*\) .*/\1/p" "$results/$1.log" | tail -1; }

stop_on_signals

# train NAME KEY=VALUE ...: one run, its output in NAME.log. The keys here go before those of the user: a key may
# stand once on the program's command line.
train() {
  local name=$1 code=0 own=" " word settings
  shift
  settings=("$@")
  for word in "$@"; do own+="${word%%=*} "; done
  for word in ${overrides[@]+"${overrides[@]}"}; do
    if [[ $own != *" ${word%%=*} "* ]]; then settings+=("$word"); fi
  done
  logged "$results/$name.log" "${launcher[@]}" "$program" run "$repository/inputs/demo.toml" "${settings[@]}" ||
    code=$?
  if [[ $code -gt 1 ]]; then fail "$code" "the run failed; its messages stand in $results/$name.log"; fi
  return "$code"
}

# The rate in Mbit/s at which the exchanges of Ulysses take 30 % of its step, from a run over a fast link: what the
# step and its exchanges take there, and the bytes that exchanges and gradients send to the other node (half of them
# each way at once). What exchanges take over a fast link is ranks that share a core waiting for each other; half of
# it goes by while the slow link is waited for. Where it is near 30 % by itself, the link takes 15 % of the step.
fitting_rate() {
  awk '
    function bytes(value, unit) { return value * 1024 ^ (index("KMGT", substr(unit, 1, 1))) }
    /^  all_to_all, / { exchange += bytes($(NF - 5), $(NF - 4)) } # four columns of seconds follow
    /^  all_reduce_sum, / { sum += bytes($(NF - 5), $(NF - 4)) }
    /^EXCHANGE: / { share = $2 / 100 }
    /^STEP: / { step = $2 }
    END {
      x = exchange / 2 * 8e-6; y = sum / 2 * 8e-6
      most = x / (0.15 * step)
      missing = (0.3 - share / 2) * step
      rate = missing > 0 ? (x - 0.3 * (x + y)) / missing : most
      if (rate <= 0 || rate > most) rate = most
      printf "%dmbit\n", rate < 10 ? 10 : rate
    }' "$results/fast-link.log"
}

if [[ -n $cannot ]]; then
  set_launcher 8
  say "8 ranks on one host"
  echo "No second node: $cannot"
  echo "Every exchange then goes through this machine's memory, so Ulysses loses little by exchanging among all"
  echo "8 ranks, and the speed-up below says nothing about a cluster. With root, run: sudo scripts/demo.sh"
else
  set_cluster_launcher 10gbit
  if [[ $rate == auto ]]; then
    say "Choosing the rate of the link by a few steps over a fast one"
    train fast-link parallel.system=ulysses train.steps=3 train.warmup_steps=1 verify.enabled=false >/dev/null || true
    rate=$(fitting_rate)
  fi
  set_cluster_launcher "$rate"
  say "8 ranks on two emulated nodes, joined by a link of $rate"
fi

status=0
for system in ulysses basp; do
  say "Training as $system"
  train "$system" "parallel.system=$system" "output.file=$results/$system.h5" output.weights=true || status=1
done

say "Do both compute the same?"
logged "$results/compare.log" "$program" compare "$results/ulysses.h5" "$results/basp.h5" || status=1

say "Side by side"
awk -v us="$(number ulysses STEP)" -v bs="$(number basp STEP)" \
  -v ut="$(number ulysses FOM)" -v bt="$(number basp FOM)" \
  -v ue="$(number ulysses EXCHANGE)" -v be="$(number basp EXCHANGE)" 'BEGIN {
    printf "  %-28s %10s %10s\n", "", "Ulysses", "BASP"
    printf "  %-28s %10.4f %10.4f\n", "seconds a step", us, bs
    printf "  %-28s %10.0f %10.0f\n", "tokens a second", ut, bt
    printf "  %-28s %8.1f %% %8.1f %%\n", "of the step in all-to-all", ue, be
    if (bs > 0) printf "  speed-up of BASP over Ulysses: %.2f\n", us / bs
  }' | tee "$results/summary.txt"
echo "  results: $results"
if [[ $status -eq 0 ]]; then echo "  verdict: VALID"; else echo "  verdict: INVALID (see above)"; fi
exit "$status"
