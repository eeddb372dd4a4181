# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced by the scripts beside it: where the sources are, how many jobs a build may use, how MPI starts.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Open MPI refuses root unless both are set; containers and CI are root.
if [[ $(id -u) -eq 0 ]]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

say() { printf '\n== %s\n' "$*"; }

fail() { # fail EXIT_CODE MESSAGE
  local code=$1
  shift
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit "$code"
}

# One job a core, and 1.5 GB of memory a job: a compiler that is killed for memory names no reason.
build_jobs() {
  local jobs memory
  jobs=$(nproc)
  memory=$(awk '/^MemAvailable/ {print int($2 / 1500000)}' /proc/meminfo 2>/dev/null || true)
  if [[ -n $memory && $memory -lt $jobs ]]; then jobs=$memory; fi
  if [[ $jobs -lt 1 ]]; then jobs=1; fi
  echo "$jobs"
}

# configure_and_build FOLDER [CMake option ...]
configure_and_build() {
  local folder=$1
  shift
  say "Configuring in $folder"
  cmake -S "$repository" -B "$folder" "$@"
  say "Building with $(build_jobs) job(s)"
  cmake --build "$folder" --parallel "$(build_jobs)"
}

# Puts the words that start N ranks on this host, on however few cores, into the array `launcher`.
set_launcher() {
  local version
  launcher=(mpirun -n "$1")
  version=$(mpirun --version 2>&1)
  if [[ $version =~ Open\ MPI|OpenRTE|PRRTE ]]; then
    launcher+=(--oversubscribe --bind-to none --mca mpi_yield_when_idle 1)
  fi
}
