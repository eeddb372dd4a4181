// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// MPI for the lifetime of the program.
#pragma once

#include <string>

namespace minisp::comm {

/// Initialises MPI (MPI_THREAD_FUNNELED) and finalizes it. One in a process, before every communicator.
class Environment {
 public:
  Environment(int& argc, char**& argv);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
};

/// Ends all ranks at once; for errors that other ranks do not know of.
[[noreturn]] void abort_job(int exit_code);

/// "Open MPI v4.1.4, ...": the first line of what MPI says of itself.
std::string mpi_library();

/// Whether MPI takes the address of memory on a device (as MPI itself tells; false where it cannot tell).
bool mpi_takes_device_memory();

}  // namespace minisp::comm
