// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/provenance.hpp"

#include "comm/environment.hpp"
#include "io/hdf5.hpp"
#include "math/blas_info.hpp"
#include "math/gemm.hpp"
#include "provenance_config.hpp"

#include <Kokkos_Core.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <set>
#include <sstream>
#include <string_view>
#include <unistd.h>

namespace minisp::io {

namespace {

/// Variables that change speed or placement. Batch systems and launchers also pass credentials through the
/// environment, so theirs are named one by one.
constexpr std::array recorded_prefixes{
    "OMP_",  "GOMP_",         "KMP_",          "KOKKOS_",       "OPENBLAS_",      "GOTO_",    "BLIS_",
    "MKL_",  "DNNL_",         "ONEDNN_",       "NCCL_",         "UCX_",           "FI_",      "HDF5_USE_",
    "HIP_",  "MPICH_",        "OMPI_MCA_btl",  "OMPI_MCA_coll", "OMPI_MCA_hwloc", "ROMIO_",   "OMPI_MCA_io",
    "CUDA_", "OMPI_MCA_mpi_", "OMPI_MCA_pml_", "OMPI_MCA_osc",  "OMPI_MCA_rmaps", "ROCR_VIS", "LD_PRELOAD"};
constexpr std::array recorded_names{"SLURM_JOB_ID",        "SLURM_JOB_NUM_NODES", "SLURM_NTASKS",
                                    "SLURM_CPUS_PER_TASK", "SLURM_JOB_PARTITION", "SLURM_CLUSTER_NAME",
                                    "SLURM_CPU_BIND",      "SLURM_DISTRIBUTION",  "FLUX_JOB_ID",
                                    "PBS_JOBID",           "LSB_JOBID",           "COBALT_JOBID"};

std::vector<std::pair<std::string, std::string>> relevant_environment() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text(*entry);
    const auto name = text.substr(0, text.find('='));
    const auto is_prefix = [&](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; };
    const bool wanted = std::any_of(recorded_prefixes.begin(), recorded_prefixes.end(), is_prefix) ||
                        std::find(recorded_names.begin(), recorded_names.end(), name) != recorded_names.end();
    if (wanted && name.size() < text.size()) variables.emplace_back(name, text.substr(name.size() + 1));
  }
  std::sort(variables.begin(), variables.end());
  return variables;
}

std::string iso_date() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S%z", &local);
  return text.data();
}

std::string kokkos_configuration() {
  std::ostringstream text;
  Kokkos::print_configuration(text, true);
  return text.str();
}

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

/// gethostname rather than MPI_Get_processor_name: two network namespaces or containers on one machine are
/// two nodes, and only the former tells them apart.
std::vector<std::string> host_of_every_rank(MPI_Comm comm) {
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  constexpr int width = 256;
  std::array<char, width> mine{};
  gethostname(mine.data(), width - 1);
  std::vector<char> all(static_cast<std::size_t>(ranks) * width);
  MPI_Allgather(mine.data(), width, MPI_CHAR, all.data(), width, MPI_CHAR, comm);
  std::vector<std::string> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.emplace_back(all.data() + rank * width);
  return hosts;
}

/// The text of rank 0 on every rank.
void broadcast(std::string& text, MPI_Comm comm) {
  auto length = static_cast<int>(text.size());
  MPI_Bcast(&length, 1, MPI_INT, 0, comm);
  text.resize(static_cast<std::size_t>(length));
  MPI_Bcast(text.data(), length, MPI_CHAR, 0, comm);
}

/// A shell's view of the words: those with blanks or quotes in single quotes.
std::string command_line_of(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) {
    if (!line.empty()) line += ' ';
    if (!word.empty() && word.find_first_of(" \t\n'\"\\$*?;&|<>()") == std::string::npos) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

}  // namespace

std::string version_text() {
  return "miniSP " MINISP_VERSION " (commit " MINISP_COMMIT ")";
}

Provenance gather_provenance(MPI_Comm comm, const std::vector<std::string>& command_line) {
  Provenance p;
  p.version = MINISP_VERSION;
  p.commit = MINISP_COMMIT;
  p.compiler = MINISP_COMPILER;
  p.compile_flags = MINISP_COMPILE_FLAGS;
  p.build_type = MINISP_BUILD_TYPE;
  p.kokkos_version =
      fmt::format("{}.{}.{}", KOKKOS_VERSION / 10000, KOKKOS_VERSION / 100 % 100, KOKKOS_VERSION % 100);
  p.kokkos_configuration = kokkos_configuration();
  p.execution_space = Kokkos::DefaultExecutionSpace::name();
  p.threads = static_cast<int>(Kokkos::DefaultHostExecutionSpace().concurrency());
  const auto blas = math::blas_info();
  p.blas_library = blas.library;
  p.blas_kernel = blas.kernel;
  p.blas_fallback = blas.fallback;
  p.blas_advice = blas.advice;
  p.gemm_fp64 = math::gemm_backend<double>();
  p.gemm_fp32 = math::gemm_backend<float>();
  p.gemm_bf16 = math::gemm_backend<bfloat16>();
  p.mpi_library = comm::mpi_library();
  p.hdf5_version = hdf5_version();
  p.processor = math::processor_name();
  p.vector_extension = math::processor_vector_extension();
  p.hosts = host_of_every_rank(comm);
  p.ranks = static_cast<int>(p.hosts.size());
  p.nodes = static_cast<int>(std::set<std::string>(p.hosts.begin(), p.hosts.end()).size());
  p.date = iso_date();
  broadcast(p.date, comm);
  p.command_line = command_line_of(command_line);
  p.environment = relevant_environment();
  return p;
}

std::vector<std::pair<std::string, std::string>> rows_of(const Provenance& p) {
  std::vector<std::pair<std::string, std::string>> rows{
      {"version", p.version},
      {"commit", p.commit},
      {"compiler", p.compiler},
      {"compile_flags", p.compile_flags},
      {"build_type", p.build_type},
      {"kokkos_version", p.kokkos_version},
      {"execution_space", p.execution_space},
      {"blas_library", p.blas_library},
      {"blas_kernel", p.blas_kernel + (p.blas_fallback ? " (fallback)" : "")},
      {"gemm_fp32", p.gemm_fp32},
      {"gemm_fp64", p.gemm_fp64},
      {"gemm_bf16", p.gemm_bf16},
      {"mpi_library", p.mpi_library},
      {"hdf5_version", p.hdf5_version},
      {"processor", p.processor},
      {"vector_extension", p.vector_extension},
      {"threads_per_rank", std::to_string(p.threads)},
      {"ranks", std::to_string(p.ranks)},
      {"nodes", std::to_string(p.nodes)},
      {"date", p.date},
      {"command_line", p.command_line},
  };
  if (!p.blas_advice.empty()) rows.insert(rows.begin() + 9, {"blas_advice", p.blas_advice});
  return rows;
}

void write_provenance(hid_t file, const Provenance& p) {
  write_attribute(file, "software", "miniSP");
  write_attribute(file, "softwareVersion", p.version);
  write_attribute(
      file, "softwareDependencies",
      fmt::format("{};Kokkos@{};HDF5@{};{}", p.compiler, p.kokkos_version, p.hdf5_version, p.mpi_library));
  std::string date = p.date;  // openPMD writes "2026-07-01 12:00:00 +0200"
  if (date.size() > 19) date = date.substr(0, 10) + " " + date.substr(11, 8) + " " + date.substr(19);
  write_attribute(file, "date", date);
  write_attribute(file, "machine", p.hosts.empty() ? std::string("unknown") : p.hosts.front());

  const auto group = make_group(file, "/provenance");
  for (const auto& [name, value] : rows_of(p))
    if (name != "ranks" && name != "nodes" && name != "threads_per_rank" && name != "command_line")
      write_attribute(group.get(), name, value);
  write_attribute<std::int64_t>(group.get(), "ranks", p.ranks);
  write_attribute<std::int64_t>(group.get(), "nodes", p.nodes);
  write_attribute<std::int64_t>(group.get(), "threads_per_rank", p.threads);
  write_attribute(group.get(), "blas_fallback", p.blas_fallback);
  write_attribute(group.get(), "injected", p.injected);
  // Of any length, so datasets: an attribute ends at 64 KiB.
  write_text(file, "/provenance/command_line", p.command_line, "Command as a shell would read it");
  write_text(file, "/provenance/kokkos_configuration", p.kokkos_configuration, "Kokkos::print_configuration");
  write_texts(file, "/provenance/hosts", p.hosts, "Host name of every rank");
  std::vector<std::string> variables;
  for (const auto& [name, value] : p.environment) variables.push_back(name + "=" + value);
  write_texts(file, "/provenance/environment", variables,
              "Environment variables that change a run, of rank 0");
}

}  // namespace minisp::io
