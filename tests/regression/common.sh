# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced by the tests beside it: runs the program as a user does and judges exit code, output and errors. CTest sets
# MINISP (the program), MINISP_SOURCE (the repository) and MINISP_LAUNCHER (the words before the number of ranks).

: "${MINISP:?}" "${MINISP_SOURCE:?}" "${MINISP_LAUNCHER:?}"
read -r -a launcher <<<"$MINISP_LAUNCHER"
# shellcheck disable=SC2034 # for those who source this
tiny=$MINISP_SOURCE/inputs/tiny.toml
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
checks=0

die() {
  printf 'FAILED: %s\n--- command: %s\n--- exit code %s\n--- output:\n' "$1" "${command[*]}" "$code"
  cat "$scratch/out"
  printf -- '--- errors:\n'
  cat "$scratch/err"
  exit 1
}

minisp() { # minisp RANKS WORD ...: leaves code, $scratch/out and $scratch/err
  local ranks=$1
  shift
  command=("${launcher[@]}" "$ranks" "$MINISP" "$@")
  code=0
  "${command[@]}" >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
  checks=$((checks + 1))
}

expect_code() { [[ $code -eq $1 ]] || die "exit code $code, not $1"; }
expect_out() { grep -Eq -- "$1" "$scratch/out" || die "no output matches '$1'"; }
expect_no_out() { if grep -Eq -- "$1" "$scratch/out"; then die "output matches '$1'"; fi; }

# One line of ours among what the launcher has to say about an exit code, whatever the number of ranks.
expect_error() {
  local lines
  lines=$(grep -c '^minisp: ' "$scratch/err" || true)
  [[ $lines -eq 1 ]] || die "$lines lines of error, not one"
  grep '^minisp: ' "$scratch/err" | grep -Eq -- "$1" || die "the error does not match '$1'"
}

expect_valid() { # expect_valid RANKS WORD ...: and nothing on stderr
  minisp "$@"
  expect_code 0
  [[ ! -s $scratch/err ]] || die "errors in a run that went well"
}

refuse() { # refuse CODE RANKS REGEX WORD ...
  local wanted=$1 ranks=$2 regex=$3
  shift 3
  minisp "$ranks" "$@"
  expect_code "$wanted"
  expect_error "$regex"
}

finish() { echo "$(basename "$0"): $checks runs of the program, all as they should be"; }
