#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# Builds the fuzz targets with Clang, with addresses and undefined behaviour checked, and runs each for a while.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

targets=(deck config_json safetensors safetensors_index checkpoint)
seconds=60
length=4096
build=$repository/build-fuzz
work=$build/fuzz

usage() {
  cat <<USAGE
Usage: tests/fuzz/run.sh [--no-install] [--seconds N] [--length N] [TARGET ...]

Targets: ${targets[*]} (default: all), as many at a time as there are cores.

  --seconds N   for each target (default $seconds)
  --length N    largest input in bytes (default $length)
  --no-install  install nothing (also: MINISP_SKIP_INSTALL=1)

Inputs that reach new code are kept in build-fuzz/fuzz/TARGET/ and start the next run; an input that breaks a promise is
build-fuzz/fuzz/TARGET-crash-..., and build-fuzz/tests/fuzz/fuzz_TARGET FILE runs it again. What is found becomes a unit
test, and a file in tests/fuzz/corpus/TARGET/. Exit codes: 0 nothing found, 1 something found.
USAGE
}

# The dictionary and the inputs that a target starts from.
set_sources() {
  dictionary=$repository/tests/fuzz/$1.dict
  seeds=("$repository/tests/fuzz/corpus/$1")
  case $1 in
    deck) seeds+=("$repository/inputs") ;;
    config_json) seeds+=("$work/seeds-config_json") ;;
    safetensors_index) dictionary=$repository/tests/fuzz/safetensors.dict ;;
    checkpoint) dictionary= ;; # its inputs are numbers
  esac
}

run_target() {
  local log=$work/$1.log
  set_sources "$1"
  mkdir -p "$work/$1"
  # A hostile size is one allocation far larger than any input; leaks are looked for at the end.
  if "$build/tests/fuzz/fuzz_$1" -max_total_time="$seconds" -max_len="$length" -timeout=20 -rss_limit_mb=2048 \
    -malloc_limit_mb=64 ${dictionary:+"-dict=$dictionary"} -artifact_prefix="$work/$1-" -print_final_stats=1 "$work/$1" "${seeds[@]}" \
    >"$log" 2>&1; then
    awk -v name="$1" -v seconds="$seconds" '/DONE/ { for (i = 1; i < NF; ++i) if ($i == "cov:") edges = $(i + 1) }
      /number_of_executed_units/ { runs = $2 }
      END { printf "%-18s %9d inputs in %d s, %d edges of the code reached: nothing found\n", name, runs, seconds, edges }' \
      "$log"
  else
    printf '%s: FOUND something, the end of %s:\n' "$1" "$log"
    tail -n 60 "$log"
    return 1
  fi
}

chosen=()
install_options=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --no-install) install_options=(--no-install) ;;
    --seconds | --length)
      [[ $# -ge 2 && $2 =~ ^[0-9]+$ ]] || fail 2 "$1 wants a number"
      if [[ $1 == --seconds ]]; then seconds=$2; else length=$2; fi
      shift
      ;;
    -*) fail 2 "unknown option $1 (see --help)" ;;
    *)
      [[ " ${targets[*]} " == *" $1 "* ]] || fail 2 "no target '$1': ${targets[*]}"
      chosen+=("$1")
      ;;
  esac
  shift
done
if [[ ${#chosen[@]} -eq 0 ]]; then chosen=("${targets[@]}"); fi

"$repository/scripts/install_dependencies.sh" ${install_options[@]+"${install_options[@]}"} clang
# libFuzzer and the sanitizers are a package of their own that clang only recommends, named by clang's version.
if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
  clang++ -x c++ -fsanitize=fuzzer,address,undefined -o /dev/null - 2>/dev/null; then
  version=$(clang -dumpversion)
  "$repository/scripts/install_dependencies.sh" ${install_options[@]+"${install_options[@]}"} \
    "libclang-rt-${version%%.*}-dev"
fi

say "Building the fuzz targets"
cd "$repository"
cmake --preset fuzz
cmake --build --preset fuzz --parallel "$(build_jobs)" --target "${chosen[@]/#/fuzz_}"
mkdir -p "$work/seeds-config_json"
for config in "$repository"/tests/reference/*/config.json "$repository"/tests/reference/exported/*/config.json; do
  cp "$config" "$work/seeds-config_json/$(dirname "${config#"$repository/tests/reference/"}" | tr / -).json"
done

say "Fuzzing: $seconds s each of ${chosen[*]}"
failed=0
running=0
for target in "${chosen[@]}"; do
  if [[ $running -ge $(nproc) ]]; then
    wait -n || failed=1
    running=$((running - 1))
  fi
  run_target "$target" &
  running=$((running + 1))
done
while [[ $running -gt 0 ]]; do
  wait -n || failed=1
  running=$((running - 1))
done
exit "$failed"
