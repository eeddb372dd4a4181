// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A result file that is written by all ranks, under a temporary name until it is complete.
#pragma once

#include "io/hdf5.hpp"
#include "util/views.hpp"

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace minisp::io {

struct OutputOptions {
  bool overwrite = false;
  bool sealed = false;              ///< with a checksum over all of it (io/seal.hpp)
  std::string key = "output.file";  ///< of the deck, which named the file; for messages
};

/// Throws Error (bad_input) when `path` cannot become an output file: it exists and is not to be overwritten,
/// it is a folder, or its folder is missing or cannot be written. Not collective; call it before the run, so
/// that hours of work do not end in this error.
void check_output_path(const std::string& path, const OutputOptions& options);
inline void check_output_path(const std::string& path, bool overwrite) {
  check_output_path(path, OutputOptions{.overwrite = overwrite});
}

/// Written as PATH.partial, renamed to PATH by commit(). Until then a file at PATH stays as it is; without
/// commit() the destructor removes the partial file. All members are collective over the communicator, and
/// all ranks throw the same Error (agreed()) when one of them fails; after that the object only serves to be
/// destroyed. A full disk is noticed before HDF5 meets it: space is reserved ahead of every write.
class OutputFile {
 public:
  /// The communicator must outlive the object.
  OutputFile(MPI_Comm comm, const std::string& path, OutputOptions options);
  OutputFile(MPI_Comm comm, const std::string& path, bool overwrite)
      : OutputFile(comm, path, OutputOptions{.overwrite = overwrite}) {}
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Writes a global array of shape `shape`, of which this rank holds `slabs` (any number, also none). `data`
  /// (host memory) holds the slabs one after the other, each row-major. No two ranks may write the same
  /// element, and together they have to cover the array; what is stored does not depend on who wrote it.
  /// `shape`, `name`, `units` and `description` are the same on every rank. T: double, float, std::int64_t,
  /// std::int32_t.
  template <class T>
  void write_global(const std::string& name, const Shape& shape, const std::vector<Slab>& slabs,
                    const T* data, const std::string& units, const std::string& description);

  /// Lets rank 0 alone write with the functions of hdf5.hpp: everything small. `bytes` is an upper estimate
  /// of what it will write. The function runs on rank 0 only.
  void write_on_root(std::uint64_t bytes, const std::function<void(hid_t file)>& write);

  /// Closes, syncs to the disk and renames. Nothing may be written afterwards.
  void commit();

  MPI_Comm comm() const { return comm_; }
  const std::string& path() const { return path_; }

 private:
  struct Description {
    std::string name, units, text;
  };
  void open_in_parallel(bool create);
  void close_in_parallel();
  void reserve(std::uint64_t bytes);
  void add_to_checksum(const H5Dataset& dataset, const Shape& shape, const std::vector<Slab>& slabs,
                       const void* data, std::int64_t element_bytes);
  std::uint64_t sum_of_the_rest() const;
  void together(const std::function<void()>& work);

  MPI_Comm comm_;
  int rank_ = 0;
  std::string path_, partial_;
  OutputOptions options_;
  bool keep_partial_ = false;
  bool failed_together_ = false;
  H5File file_;                            // open while all ranks write
  std::vector<Description> descriptions_;  // of global arrays; written by rank 0 at the end
  // Sealed files: the checksum of what this rank has written to global arrays, taken in memory, so that a
  // write that goes wrong unnoticed is found too; and where in the file these arrays lie (offset, end).
  std::uint64_t checksum_ = 0;
  std::map<std::int64_t, std::int64_t> arrays_;
};

}  // namespace minisp::io
