#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# Does the program notice that it is wrong? Faults that such programs have had (mutations.sh) are built into a copy of
# the sources, one at a time; each has to be noticed by quick checks that the program as it is passes.
#   MINISP_LAUNCHER="mpirun -n" tests/mutation/run.sh [WORD ...]     only faults whose title holds one of the words
# MINISP_CMAKE_OPTIONS goes to CMake.
set -euo pipefail
source_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
: "${MINISP_LAUNCHER:?}"
read -r -a launcher <<<"$MINISP_LAUNCHER"
read -r -a cmake_options <<<"${MINISP_CMAKE_OPTIONS:-}"
wanted=("$@")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
original=$scratch/original copy=$scratch/source
mutated_file= # of the copy, while it differs from the original
failures=0 checks=0 faults=0 selected=false

build() {
  cmake --build "$scratch/build" --target minisp --parallel "$(nproc)" >"$scratch/build.log" 2>&1 || {
    tail -n 30 "$scratch/build.log"
    echo "FAILED: $1 does not build"
    exit 1
  }
}

check() { # check NAME WANTED_CODE REGEX COMMAND ...
  local name=$1 wanted_code=$2 regex=$3 code=0
  shift 3
  checks=$((checks + 1))
  timeout 120 "$@" >"$scratch/output" 2>&1 </dev/null || code=$?
  if [[ $code -ne $wanted_code ]] || ! grep -Eq -- "$regex" "$scratch/output"; then
    printf '  FAILED: %s: exit code %s, wanted %s and "%s"\n' "$name" "$code" "$wanted_code" "$regex"
    tail -n 15 "$scratch/output"
    failures=$((failures + 1))
  else
    printf '  %s: ok\n' "$name"
  fi
}

reference_check() { # reference_check CODE REGEX FOLDER RANKS [key=value ...]
  local code=$1 regex=$2 folder=$3 ranks=$4
  shift 4
  check "reference $folder, $ranks ranks $*" "$code" "$regex" "${launcher[@]}" "$ranks" "$scratch/build/src/minisp" \
    verify --reference "$source_folder/tests/reference/$folder" "$@"
}
run_check() { # run_check CODE REGEX RANKS [key=value ...]
  local code=$1 regex=$2 ranks=$3
  shift 3
  check "run, $ranks ranks $*" "$code" "$regex" "${launcher[@]}" "$ranks" "$scratch/build/src/minisp" run \
    "$source_folder/inputs/tiny.toml" train.steps=3 train.warmup_steps=1 "$@"
}

is_wanted() {
  local word
  [[ ${#wanted[@]} -gt 0 ]] || return 0
  for word in "${wanted[@]}"; do
    if [[ $1 == *"$word"* ]]; then return 0; fi
  done
  return 1
}

mkdir "$original"
(cd "$source_folder" && cp -r CMakeLists.txt cmake src "$original")
cp -r "$original" "$copy"
cmake -S "$copy" -B "$scratch/build" -DMINISP_ENABLE_TESTS=OFF -DMINISP_ENABLE_BENCHMARKS=OFF \
  ${cmake_options[@]+"${cmake_options[@]}"} >"$scratch/build.log" 2>&1 || {
  cat "$scratch/build.log"
  exit 1
}

# Puts one fault into the copy, in place of the last one; every fault is one line.
apply() { # apply TITLE FILE SED_EXPRESSION
  if [[ -n $mutated_file ]]; then cp "$original/$mutated_file" "$copy/$mutated_file"; fi
  mutated_file=$2
  sed "$3" "$original/$2" >"$copy/$2"
  local changed
  changed=$(diff "$original/$2" "$copy/$2" | grep -c '^[<]' || true)
  if [[ $changed -ne 1 ]]; then
    echo "FAILED: '$1' changes $changed lines of $2, not one: bring it up to date with the code"
    exit 1
  fi
}

# Every fault still has its place in the code, before anything is built.
mutate() { apply "$@"; }
noticed_by_reference() { :; }
noticed_by_run() { :; }
# shellcheck source=tests/mutation/mutations.sh
source "$source_folder/tests/mutation/mutations.sh"
cp "$original/$mutated_file" "$copy/$mutated_file"
mutated_file=

# As it is, the program passes every check below.
build 'the program'
echo 'no fault'
declare -A passed
mutate() { is_wanted "$1" && selected=true || selected=false; }
noticed_by_reference() { ! $selected || once reference_check 0 '^VALID: yes' "$@"; }
noticed_by_run() { ! $selected || once run_check 0 '^VALID: yes' "${@:2}"; }
once() {
  [[ -z ${passed["$*"]:-} ]] || return 0
  passed["$*"]=yes
  "$@"
}
# shellcheck source=tests/mutation/mutations.sh
source "$source_folder/tests/mutation/mutations.sh"
[[ $failures -eq 0 ]] || exit 1

mutate() {
  selected=false
  is_wanted "$1" || return 0
  selected=true
  faults=$((faults + 1))
  echo "$1"
  apply "$@"
  build "'$1'"
}
noticed_by_reference() { ! $selected || reference_check 1 '^VALID: no' "$@"; }
noticed_by_run() { ! $selected || run_check 1 "^INVALID: .*$1" "${@:2}"; }
# shellcheck source=tests/mutation/mutations.sh
source "$source_folder/tests/mutation/mutations.sh"

echo "$faults faults, $checks checks, $failures failed"
[[ $faults -gt 0 && $failures -eq 0 ]]
