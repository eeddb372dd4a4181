# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced by the scripts beside it: where the sources are, how many jobs a build may use, how MPI starts, commands that
# are logged and stopped.

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

cluster=$repository/scripts/emulate_cluster
# Leaves in `cannot` why two hosts cannot be emulated here, or nothing: check_cluster RATE
# shellcheck disable=SC2034 # for those who source this
check_cluster() {
  local code=0 answer
  answer=$("$cluster" --check --rate "$1" 2>&1) || code=$?
  case $code in
    0) cannot= ;;
    3) cannot=$answer ;;
    *) fail 2 "$answer" ;;
  esac
}

# The same as set_launcher for 8 ranks on two emulated hosts: set_cluster_launcher RATE
set_cluster_launcher() { launcher=("$cluster" --hosts 2 --ranks-per-host 4 --rate "$1" --); }

# logged FILE COMMAND ...: runs it with its output shown and added to FILE. In the background, because the shell
# answers a signal only between foreground commands, and the emulated hosts must go when a script is stopped.
running=
logged() {
  local file=$1 show code=0
  shift
  exec 3> >(tee -a "$file")
  show=$!
  "$@" >&3 2>&1 &
  running=$!
  exec 3>&-
  wait "$running" || code=$?
  running=
  wait "$show" || true
  return "$code"
}

# shellcheck disable=SC2317 # called by the traps
stop() {
  trap '' INT TERM HUP
  if [[ -n $running ]]; then
    kill -TERM "$running" 2>/dev/null || true
    wait "$running" 2>/dev/null || true
  fi
  exit "$1"
}
stop_on_signals() {
  trap 'stop 130' INT
  trap 'stop 143' TERM
  trap 'stop 129' HUP
}

# Puts the first Python that has what scripts/plot needs into `python`; MINISP_PYTHON names another one.
set_python() {
  for python in ${MINISP_PYTHON:+"$MINISP_PYTHON"} python3 /usr/bin/python3; do
    if "$python" -c 'import h5py, matplotlib, numpy' 2>/dev/null; then return; fi
  done
  fail 3 "no Python here has h5py and matplotlib (Debian: apt-get install python3-h5py python3-matplotlib)"
}
