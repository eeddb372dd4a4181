#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# From a fresh Debian or Ubuntu machine to the demo: installs what is missing, builds, runs it.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<USAGE
Usage: scripts/quickstart.sh [--no-install] [--build-dir FOLDER] [demo option ...]

Installs what is missing (says what first), builds miniSP in build/, and runs scripts/demo.sh: a transformer
trains on 8 ranks under Ulysses and under BASP, and both results are compared.

  --no-install          install nothing (also: MINISP_SKIP_INSTALL=1)
  --build-dir FOLDER    build there, not in build/
  demo option ...       passed on; scripts/demo.sh --help lists them

CMake takes further options from the variable MINISP_CMAKE_OPTIONS ("-DKokkos_ROOT=... -G Ninja").
Exit codes: 0 the demo ran and is VALID, 1 INVALID, 2 packages cannot be installed, others from CMake.
USAGE
}

build=$repository/build
install_options=()
demo_options=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --no-install) install_options=(--no-install) ;;
    --build-dir)
      [[ $# -ge 2 ]] || fail 2 "--build-dir wants a folder"
      build=$(realpath -m "$2")
      shift
      ;;
    *) demo_options+=("$1") ;;
  esac
  shift
done

"$repository/scripts/install_dependencies.sh" ${install_options[@]+"${install_options[@]}"}
read -r -a cmake_options <<<"${MINISP_CMAKE_OPTIONS:-}"
# The tests are left out: they take longer to compile than the program. scripts/test.sh builds them.
configure_and_build "$build" -DCMAKE_BUILD_TYPE=Release -DMINISP_ENABLE_TESTS=OFF \
  -DMINISP_ENABLE_BENCHMARKS=OFF ${cmake_options[@]+"${cmake_options[@]}"}
exec "$repository/scripts/demo.sh" --program "$build/src/minisp" ${demo_options[@]+"${demo_options[@]}"}
