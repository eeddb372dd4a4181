# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# How tests are made. Labels: unit (one process), mpi (several ranks), regression (the program as a user
# runs it). `ctest -L unit`, `ctest -LE mpi` and so on select by them.

find_package(GTest REQUIRED)

# Flags that let any launcher start more ranks than there are cores, as root too (containers, CI).
set(MINISP_MPIEXEC_FLAGS "" CACHE STRING "Extra mpiexec flags for the tests")
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE minisp_mpi_version ERROR_QUIET)
set(minisp_mpiexec_flags ${MINISP_MPIEXEC_FLAGS})
if(minisp_mpi_version MATCHES "Open MPI|OpenRTE|PRRTE|prte")
  list(APPEND minisp_mpiexec_flags --oversubscribe --allow-run-as-root --bind-to none --mca
    mpi_yield_when_idle 1)
endif()

add_library(minisp_test_main STATIC "${PROJECT_SOURCE_DIR}/tests/support/test_main.cpp")
target_include_directories(minisp_test_main PUBLIC "${PROJECT_SOURCE_DIR}/tests")
target_link_libraries(minisp_test_main PUBLIC minisp_comm minisp_math GTest::gtest GTest::gmock)

# minisp_unit_test(NAME SOURCES ... LINKS ...): one process.
function(minisp_unit_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(test_${name} ${TEST_SOURCES})
  target_link_libraries(test_${name} PRIVATE minisp_test_main ${TEST_LINKS})
  add_test(NAME unit.${name} COMMAND test_${name})
  set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 600)
endfunction()

# minisp_mpi_test(NAME RANKS n ... SOURCES ... LINKS ...): the same binary under each rank count.
function(minisp_mpi_test name)
  cmake_parse_arguments(TEST "" "" "RANKS;SOURCES;LINKS" ${ARGN})
  add_executable(test_${name} ${TEST_SOURCES})
  target_link_libraries(test_${name} PRIVATE minisp_test_main ${TEST_LINKS})
  foreach(ranks IN LISTS TEST_RANKS)
    add_test(NAME mpi.${name}.np${ranks}
      COMMAND ${MPIEXEC_EXECUTABLE} ${minisp_mpiexec_flags} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
        $<TARGET_FILE:test_${name}>)
    set_tests_properties(mpi.${name}.np${ranks} PROPERTIES LABELS mpi PROCESSORS ${ranks} TIMEOUT 600)
  endforeach()
endfunction()

# minisp_run_test(NAME RANKS n LABEL l COMMAND ...): a command line of the installed program.
function(minisp_run_test name)
  cmake_parse_arguments(TEST "" "RANKS;LABEL" "COMMAND" ${ARGN})
  add_test(NAME ${TEST_LABEL}.${name}
    COMMAND ${MPIEXEC_EXECUTABLE} ${minisp_mpiexec_flags} ${MPIEXEC_NUMPROC_FLAG} ${TEST_RANKS}
      $<TARGET_FILE:minisp> ${TEST_COMMAND})
  set_tests_properties(${TEST_LABEL}.${name} PROPERTIES LABELS ${TEST_LABEL} PROCESSORS ${TEST_RANKS}
    TIMEOUT 600)
endfunction()
