#!/usr/bin/env bash
# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# Installs what is missing, builds with warnings as errors, runs the tests.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<USAGE
Usage: scripts/test.sh [--no-install] [--build-dir FOLDER] [CTest option ...]

  scripts/test.sh                 everything
  scripts/test.sh -L unit         tests of one process   (-L mpi: several ranks; -L regression: the program)
  scripts/test.sh -R attention    tests whose name matches
  --no-install          install nothing (also: MINISP_SKIP_INSTALL=1)
  --build-dir FOLDER    build there, not in build-test/

CMake takes further options from the variable MINISP_CMAKE_OPTIONS ("-DKokkos_ROOT=... -G Ninja").
Exit codes: 0 all tests passed, 2 packages cannot be installed, others from CMake or CTest.
USAGE
}

build=$repository/build-test
install_options=()
ctest_options=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --no-install) install_options=(--no-install) ;;
    --build-dir)
      [[ $# -ge 2 ]] || fail 2 "--build-dir wants a folder"
      build=$(realpath -m "$2")
      shift
      ;;
    *) ctest_options+=("$1") ;;
  esac
  shift
done

"$repository/scripts/install_dependencies.sh" ${install_options[@]+"${install_options[@]}"}
read -r -a cmake_options <<<"${MINISP_CMAKE_OPTIONS:-}"
configure_and_build "$build" -DCMAKE_BUILD_TYPE=Release -DMINISP_ENABLE_TESTS=ON -DMINISP_ENABLE_WERROR=ON \
  ${cmake_options[@]+"${cmake_options[@]}"}

say "Running the tests"
# Tests that start several ranks count as that many jobs; one more at a time than there are cores would only wait.
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$(nproc)" \
  ${ctest_options[@]+"${ctest_options[@]}"}
