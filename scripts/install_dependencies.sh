#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# Installs the Debian or Ubuntu packages that miniSP needs and that are not there yet.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

required=(
  cmake g++ git make
  libopenmpi-dev openmpi-bin libhdf5-mpi-dev
  libtrilinos-kokkos-dev libtrilinos-kokkos-kernels-dev libopenblas-dev
  libtomlplusplus-dev libcli11-dev nlohmann-json3-dev libfmt-dev
  libgtest-dev libgmock-dev
)
optional=(
  libdnnl-dev        # oneDNN: faster fp32 matrix products
  libbenchmark-dev               # minisp_bench
  iproute2                       # the emulated two-node cluster
  python3-h5py python3-matplotlib # reports and figures (scripts/plot)
)

usage() {
  cat <<USAGE
Usage: scripts/install_dependencies.sh [--no-install] [--list] [PACKAGE ...]

Installs what miniSP builds with, from Debian's or Ubuntu's own packages. Says first what it will install, and
does nothing when nothing is missing. PACKAGE ...: more packages to have.

  --list        prints the package names and stops
  --no-install  installs nothing: the libraries come from elsewhere (Spack, modules). Setting
                MINISP_SKIP_INSTALL=1 does the same for every script here.

Exit codes: 0 all there, 2 cannot be had on this system (the message says what to do).
USAGE
}

elsewhere() {
  cat >&2 <<'TEXT'
Ways to the same libraries:
  * Spack:   spack env activate . && spack install     (spack.yaml in the top folder lists them)
  * a site's modules: a C++20 compiler, CMake >= 3.22, MPI, parallel HDF5, Kokkos >= 3.4 with Kokkos Kernels,
    a BLAS; and tomlplusplus, CLI11, nlohmann_json, fmt and GoogleTest
Then run this script's caller again with MINISP_SKIP_INSTALL=1, or configure with CMake directly.
TEXT
}

extra=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --list) printf '%s\n' "${required[@]}" "${optional[@]}"; exit 0 ;;
    --no-install) MINISP_SKIP_INSTALL=1 ;;
    -*) fail 2 "unknown option $1 (see --help)" ;;
    *) extra+=("$1") ;;
  esac
  shift
done

if [[ -n ${MINISP_SKIP_INSTALL:-} && ${MINISP_SKIP_INSTALL} != 0 ]]; then
  echo "Installing nothing (--no-install or MINISP_SKIP_INSTALL)."
  exit 0
fi

system=$(uname -s)
family=
if [[ -r /etc/os-release ]]; then
  system=$(. /etc/os-release && echo "${PRETTY_NAME:-$system}")
  family=$(. /etc/os-release && echo "${ID:-} ${ID_LIKE:-}")
fi
if ! [[ " $family " =~ \ (debian|ubuntu)\  ]] || ! command -v apt-get >/dev/null; then
  echo "install_dependencies.sh: this system ($system) is not Debian or Ubuntu, so nothing was installed." >&2
  elsewhere
  exit 2
fi

# The packages among the arguments that dpkg does not have in place, one a line.
not_installed() {
  local package
  for package in "$@"; do
    if [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true) != installed ]]; then
      echo "$package"
    fi
  done
}

# The packages among the arguments that apt offers no version of.
not_offered() {
  local package policy
  for package in "$@"; do
    policy=$(apt-cache policy "$package" 2>/dev/null)
    if [[ ! $policy =~ Candidate:\ [^\(] ]]; then echo "$package"; fi
  done
}

mapfile -t missing < <(not_installed "${required[@]}" "${optional[@]}" ${extra[@]+"${extra[@]}"})
if [[ ${#missing[@]} -eq 0 ]]; then
  echo "All packages that miniSP needs are installed."
  exit 0
fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    fail 2 "not root and no sudo. Ask an administrator for: apt-get install ${missing[*]}"
  fi
  as_root=(sudo)
fi
apt=(${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)

say "About to install with ${as_root[*]:+sudo }apt-get on $system:"
printf '     %s\n' "${missing[@]}"
if ! "${apt[@]}" update -q; then
  echo "install_dependencies.sh: 'apt-get update' failed; going on with the package lists that are here." >&2
fi

mapfile -t absent < <(not_offered "${missing[@]}")
install=()
fatal=()
for package in "${missing[@]}"; do
  if [[ " ${absent[*]:-} " != *" $package "* ]]; then
    install+=("$package")
  elif [[ " ${optional[*]} " == *" $package "* ]]; then
    echo "$system has no package $package: going on without it."
  else
    fatal+=("$package")
  fi
done
if [[ ${#fatal[@]} -gt 0 ]]; then
  echo "install_dependencies.sh: $system offers no package ${fatal[*]}." >&2
  echo "On Ubuntu the component 'universe' must be on: sudo add-apt-repository universe" >&2
  elsewhere
  exit 2
fi
if [[ ${#install[@]} -gt 0 ]] && ! "${apt[@]}" install -y -q --no-install-recommends "${install[@]}"; then
  fail 2 "apt-get could not install ${install[*]} (its message stands above)"
fi
