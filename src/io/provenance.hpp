// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Where a result comes from: program, build, libraries, machine, environment, command.
#pragma once

#include <hdf5.h>
#include <mpi.h>

#include <string>
#include <utility>
#include <vector>

namespace minisp::io {

struct Provenance {
  std::string version, commit, compiler, compile_flags, build_type;
  std::string kokkos_version, kokkos_configuration;
  std::string blas_library, blas_kernel, blas_advice;  ///< advice is empty unless BLAS runs a fallback kernel
  bool blas_fallback = false;
  std::string gemm_fp64, gemm_fp32, gemm_bf16;  ///< backend of the matrix products
  std::string mpi_library, hdf5_version;
  std::string processor, vector_extension;
  std::string execution_space;
  int threads = 1;  ///< of one rank
  int ranks = 1;
  int nodes = 1;                   ///< different host names
  std::vector<std::string> hosts;  ///< host name of every rank
  std::string injected;            ///< delays that the deck put in; empty: none
  std::string date;                ///< ISO 8601 with the offset from UTC
  std::string command_line;
  std::vector<std::pair<std::string, std::string>>
      environment;  ///< variables that change a run, as set on rank 0
};

/// "miniSP 0.1.0 (commit 0123456789ab)".
std::string version_text();

/// Collective over `comm`; the same on every rank (what differs between ranks is taken from rank 0, host
/// names from all). Needs Kokkos.
Provenance gather_provenance(MPI_Comm comm, const std::vector<std::string>& command_line);

/// The same as (label, value) lines, for `minisp info` and the report.
std::vector<std::pair<std::string, std::string>> rows_of(const Provenance& provenance);

/// Writes root attributes in openPMD's manner (software, softwareVersion, softwareDependencies, date,
/// machine) and the group /provenance.
void write_provenance(hid_t file, const Provenance& provenance);

}  // namespace minisp::io
