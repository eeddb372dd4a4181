# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# Language level, build type, warnings and optimisation flags that every target shares.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
include(GNUInstallDirs)

add_library(minisp_options INTERFACE)
target_include_directories(minisp_options INTERFACE "${PROJECT_SOURCE_DIR}/src")
target_compile_options(minisp_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow
  # ISO mode (no extensions) turns contraction off in GCC, and with it every fused multiply-add.
  -ffp-contract=fast
  # errno and floating-point traps are not observed anywhere; both keep loops from being vectorised.
  -fno-math-errno -fno-trapping-math)
# mpi.h must not declare MPI's removed C++ bindings: they want a library of their own.
target_compile_definitions(minisp_options INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
if(MINISP_ENABLE_WERROR)
  target_compile_options(minisp_options INTERFACE -Werror)
endif()
if(MINISP_ENABLE_FUZZERS)
  target_compile_options(minisp_options INTERFACE
    -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(minisp_options INTERFACE -fsanitize=address,undefined)
endif()
if(MINISP_ENABLE_NATIVE)
  target_compile_options(minisp_options INTERFACE -march=native)
endif()

# minisp_room(NAME SOURCES a.cpp ... LINKS target ...): one folder of src/ as a static library. Links
# name only rooms below, so an include that points up does not link.
function(minisp_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINKS" ${ARGN})
  if(ROOM_SOURCES)
    add_library(minisp_${name} STATIC ${ROOM_SOURCES})
    target_link_libraries(minisp_${name} PUBLIC minisp_options ${ROOM_LINKS})
  else()
    add_library(minisp_${name} INTERFACE)
    target_link_libraries(minisp_${name} INTERFACE minisp_options ${ROOM_LINKS})
  endif()
endfunction()
