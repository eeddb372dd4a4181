# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# What a result must say about its build: version, commit, compiler and flags. The commit is looked up at
# every build, and a source tree without git (a release tarball) says so instead of failing.

string(TOUPPER "${CMAKE_BUILD_TYPE}" minisp_build_type)
set(MINISP_COMPILE_FLAGS "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${minisp_build_type}}")
get_target_property(minisp_flags minisp_options INTERFACE_COMPILE_OPTIONS)
string(JOIN " " MINISP_COMPILE_FLAGS "${MINISP_COMPILE_FLAGS}" ${minisp_flags})
string(STRIP "${MINISP_COMPILE_FLAGS}" MINISP_COMPILE_FLAGS)

add_custom_target(minisp_provenance
  BYPRODUCTS "${PROJECT_BINARY_DIR}/generated/provenance_config.hpp"
  COMMAND ${CMAKE_COMMAND}
    "-DSOURCE=${PROJECT_SOURCE_DIR}/src/io/provenance_config.hpp.in"
    "-DTARGET=${PROJECT_BINARY_DIR}/generated/provenance_config.hpp"
    "-DREPOSITORY=${PROJECT_SOURCE_DIR}"
    "-DMINISP_VERSION=${PROJECT_VERSION}"
    "-DMINISP_COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
    "-DMINISP_BUILD_TYPE=${CMAKE_BUILD_TYPE}"
    "-DMINISP_COMPILE_FLAGS=${MINISP_COMPILE_FLAGS}"
    -P "${PROJECT_SOURCE_DIR}/cmake/write_provenance.cmake"
  VERBATIM)
