// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "comm/environment.hpp"

#include "comm/mpi_call.hpp"

#include <mpi.h>
#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include <cstdlib>

namespace minisp::comm {

Environment::Environment(int& argc, char**& argv) {
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (provided < MPI_THREAD_FUNNELED) {
    MPI_Finalize();
    throw environment_error("MPI does not support MPI_THREAD_FUNNELED", "MPI",
                            "Use an MPI library that was built with thread support");
  }
}

Environment::~Environment() {
  MPI_Finalize();
}

void abort_job(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::exit(exit_code);  // not reached: MPI_Abort does not return
}

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  check_mpi(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  const std::string all(text, static_cast<std::size_t>(length));
  return all.substr(0, all.find('\n'));
}

bool mpi_takes_device_memory() {
#if defined(MPIX_CUDA_AWARE_SUPPORT) && defined(KOKKOS_ENABLE_CUDA)
  return MPIX_Query_cuda_support() == 1;
#elif defined(OMPI_HAVE_MPI_EXT_ROCM) && defined(KOKKOS_ENABLE_HIP)
  return MPIX_Query_rocm_support() == 1;
#else
  return false;
#endif
}

}  // namespace minisp::comm
