// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/output_file.hpp"

#include "io/disk.hpp"
#include "io/seal.hpp"
#include "util/error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <unistd.h>

namespace minisp::io {

namespace {

/// Headers, symbol tables and text heaps that HDF5 adds around one array.
constexpr std::uint64_t bytes_around_array = 64 * 1024;
/// MPI-IO libraries count bytes of a call in an int somewhere.
constexpr std::int64_t bytes_per_call = std::int64_t{1} << 30;

Error output_exists(const std::string& path) {
  return input_error("exists already", path,
                     "Set output.overwrite=true to replace it, or give another name in output.file");
}

/// The failure of the lowest failing rank, on all ranks; nothing when none failed.
std::optional<Error> agree(MPI_Comm comm, const std::optional<Error>& mine) {
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  int first = mine ? rank : size;
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, comm);
  if (first == size) return {};
  int code = mine ? static_cast<int>(mine->code()) : 0;
  MPI_Bcast(&code, 1, MPI_INT, first, comm);
  std::array<std::string, 3> texts;
  if (rank == first) texts = {mine->problem(), mine->where(), mine->remedy()};
  for (auto& text : texts) {
    auto length = static_cast<std::int64_t>(text.size());
    MPI_Bcast(&length, 1, MPI_INT64_T, first, comm);
    text.resize(static_cast<std::size_t>(length));
    MPI_Bcast(text.data(), static_cast<int>(length), MPI_CHAR, first, comm);
  }
  Error error(static_cast<ExitCode>(code), texts[0], texts[1], texts[2]);
  error.set_agreed();
  return error;
}

void check_slabs(MPI_Comm comm, const std::string& where, const Shape& shape,
                 const std::vector<Slab>& slabs) {
  std::array<std::int64_t, 2> held_and_outside{0, 0};
  for (const auto& slab : slabs) {
    bool fits = slab.start.size() == shape.size() && slab.count.size() == shape.size();
    for (std::size_t i = 0; fits && i < shape.size(); ++i)
      fits = slab.start[i] >= 0 && slab.count[i] >= 0 && slab.start[i] + slab.count[i] <= shape[i];
    if (fits)
      held_and_outside[0] += elements_of(slab.count);
    else
      ++held_and_outside[1];
  }
  MPI_Allreduce(MPI_IN_PLACE, held_and_outside.data(), 2, MPI_INT64_T, MPI_SUM, comm);
  const auto [held, outside] = held_and_outside;
  if (outside != 0 || held != elements_of(shape))
    throw environment_error("the ranks' parts do not make up the array (they hold " + std::to_string(held) +
                                " of " + std::to_string(elements_of(shape)) + " elements, and " +
                                std::to_string(outside) + " parts lie outside)",
                            where, "This is an error in miniSP: please report it");
}

}  // namespace

void check_output_path(const std::string& path, const OutputOptions& options) {
  namespace fs = std::filesystem;
  const auto folder = folder_of(path);
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    throw input_error("is a folder", path, "Give a file name in " + options.key);
  if (fs::exists(path, ignored) && !options.overwrite) throw output_exists(path);
  if (!fs::is_directory(folder, ignored))
    throw input_error("the folder " + folder + " does not exist", path, "Make it, or change " + options.key);
  // Permissions, read-only file systems and quotas are best asked by trying.
  const auto partial = path + ".partial";
  const bool was_there = fs::exists(partial, ignored);
  const Descriptor file(open(partial.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (file.id < 0)
    throw input_error("cannot be written in the folder " + folder + " (" + system_message() + ")", path,
                      "Change " + options.key + ", or the folder's permissions");
  if (!was_there) unlink(partial.c_str());
}

OutputFile::OutputFile(MPI_Comm comm, const std::string& path, OutputOptions options)
    : comm_(comm), path_(path), partial_(path + ".partial"), options_(std::move(options)) {
  MPI_Comm_rank(comm_, &rank_);
  together([&] {
    if (rank_ == 0) check_output_path(path_, options_);
  });
  open_in_parallel(true);
}

OutputFile::~OutputFile() {
  if (partial_.empty()) return;  // committed
  std::error_code ignored;
  if (rank_ == 0 && !keep_partial_) {
    // Freed space lets HDF5 write what it still holds: where it cannot, it crashes in MPI_Finalize (1.10).
    std::filesystem::resize_file(partial_, 0, ignored);
    std::filesystem::remove(partial_, ignored);
  }
  // Closing is collective. An exception from elsewhere may be this rank's own, and waiting for the others
  // would hide it; then HDF5 closes the file in MPI_Finalize, if it comes to that.
  if (std::uncaught_exceptions() > 0 && !failed_together_) file_.release();
}

void OutputFile::together(const std::function<void()>& work) {
  std::optional<Error> mine;
  try {
    work();
  } catch (const Error& error) {
    mine = error;
  } catch (const std::exception& error) {
    mine = environment_error(error.what(), path_, "");
  }
  if (auto error = agree(comm_, mine)) {
    failed_together_ = true;
    throw *error;
  }
}

void OutputFile::open_in_parallel(bool create) {
  if (file_) return;
  together([&] {
    const H5Properties access(checked(H5Pcreate(H5P_FILE_ACCESS), "cannot make file properties", path_));
    checked(H5Pset_fapl_mpio(access.get(), comm_, MPI_INFO_NULL), "cannot use MPI-IO", path_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    const H5Properties creation(checked(H5Pcreate(H5P_FILE_CREATE), "cannot make file properties", path_));
    if (options_.sealed) {
      checked(H5Pset_userblock(creation.get(), seal_bytes), "cannot leave room for the seal", path_);
      checked(H5Pset_alignment(access.get(), 0, 8), "cannot align the arrays", path_);  // words of the seal
    }
    file_ = H5File(checked(create ? H5Fcreate(partial_.c_str(), H5F_ACC_TRUNC, creation.get(), access.get())
                                  : H5Fopen(partial_.c_str(), H5F_ACC_RDWR, access.get()),
                           "cannot open the file with MPI-IO", partial_));
  });
}

void OutputFile::close_in_parallel() {
  if (!file_) return;
  // A file whose flush has failed is still whole and can be closed after the destructor has made room.
  together([&] { checked(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), "cannot finish writing", partial_); });
  together([&] { checked(file_.close(), "cannot finish writing", partial_); });
}

// HDF5 must not meet a full disk: a failed write of its metadata leaves a file that cannot be closed (1.10
// crashes in MPI_Finalize), and collective writes of Open MPI 4.1 can fail without saying so. So rank 0
// allocates blocks beyond the present end, without changing the file's size; what stays unused is freed at
// the end.
void OutputFile::reserve(std::uint64_t bytes) {
  hsize_t end = 0;
  if (file_) H5Fget_filesize(file_.get(), &end);
  // With a user block HDF5 1.10 tells 0. New arrays lie behind the last one, and so does what describes them.
  if (!arrays_.empty()) end = std::max(end, static_cast<hsize_t>(arrays_.rbegin()->second));
  together([&] {
    std::error_code ignored;
    if (!file_) end = std::filesystem::file_size(partial_, ignored);
    int code = size_limit_error(end + bytes);
    if (code == 0 && rank_ == 0) code = allocate(partial_, end + bytes);
    if (code != 0)
      throw environment_error("no room for the result: " + std::to_string(bytes) +
                                  " more bytes are needed (" + std::strerror(code) + ")",
                              path_, "Free space on this disk, raise the limit, or change " + options_.key);
  });
}

template <class T>
void OutputFile::write_global(const std::string& name, const Shape& shape, const std::vector<Slab>& slabs,
                              const T* data, const std::string& units, const std::string& description) {
  const auto where = path_ + ": " + name;
  together([&] { check_slabs(comm_, where, shape, slabs); });
  open_in_parallel(false);
  reserve(static_cast<std::uint64_t>(elements_of(shape)) * sizeof(T) + bytes_around_array);

  H5Dataset dataset;
  together([&] {
    dataset = create_dataset<T>(file_.get(), name, shape);
    if (options_.sealed) add_to_checksum(dataset, shape, slabs, data, sizeof(T));
  });

  std::vector<Slab> pieces;
  for (const auto& slab : slabs)
    if (elements_of(slab.count) > 0)
      for (auto& piece : pieces_of(slab, bytes_per_call / static_cast<std::int64_t>(sizeof(T))))
        pieces.push_back(std::move(piece));
  auto calls = static_cast<std::int64_t>(pieces.size());
  MPI_Allreduce(MPI_IN_PLACE, &calls, 1, MPI_INT64_T, MPI_MAX, comm_);
  together([&] {
    const H5Properties transfer(
        checked(H5Pcreate(H5P_DATASET_XFER), "cannot make transfer properties", where));
    checked(H5Pset_dxpl_mpio(transfer.get(), H5FD_MPIO_COLLECTIVE), "cannot write collectively", where);
    const H5Space file_space(checked(H5Dget_space(dataset.get()), "cannot tell the shape", where));
    std::string failure;  // thrown after the last call, for the other ranks take part in every one
    for (std::int64_t call = 0; call < calls; ++call) {
      const bool mine = call < static_cast<std::int64_t>(pieces.size());
      hsize_t count = mine ? static_cast<hsize_t>(elements_of(pieces[call].count)) : 1;
      const H5Space memory_space(H5Screate_simple(1, &count, nullptr));
      if (mine) {
        select(file_space.get(), pieces[call]);
      } else {
        H5Sselect_none(memory_space.get());
        H5Sselect_none(file_space.get());
      }
      if (H5Dwrite(dataset.get(), hdf5_type<T>(), memory_space.get(), file_space.get(), transfer.get(),
                   data) < 0)
        failure = hdf5_message();
      if (mine) data += count;
    }
    if (!failure.empty())
      throw environment_error("cannot write the array (HDF5: " + failure + ")", where,
                              "Check the disk's free space and quota");
  });
  descriptions_.push_back({name, units, description});
}

void OutputFile::add_to_checksum(const H5Dataset& dataset, const Shape& shape, const std::vector<Slab>& slabs,
                                 const void* data, std::int64_t element_bytes) {
  const std::int64_t bytes = elements_of(shape) * element_bytes;
  if (bytes == 0) return;
  const haddr_t offset = H5Dget_offset(dataset.get());
  if (offset == HADDR_UNDEF || offset % 4 != 0)
    throw environment_error("HDF5 does not tell where an array lies, or it lies askew",
                            location_name(dataset.get()), "This is an error in miniSP: please report it");
  const auto begin = static_cast<std::int64_t>(offset);
  arrays_[begin] = begin + bytes;
  const auto* next = static_cast<const char*>(data);
  for (const auto& slab : slabs) {
    if (elements_of(slab.count) == 0) continue;
    std::int64_t run = 1;  // elements that lie together in the file
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      run *= slab.count[axis];
      if (slab.count[axis] != shape[axis]) break;
    }
    for (const auto& piece : pieces_of(slab, run)) {
      std::int64_t element = 0;
      for (std::size_t axis = 0; axis < shape.size(); ++axis)
        element = element * shape[axis] + piece.start[axis];
      const auto size = static_cast<std::size_t>(run * element_bytes);
      checksum_ += sum_of_words(begin + element * element_bytes, next, size);
      next += size;
    }
  }
}

/// The checksum of what lies around the global arrays, read back.
std::uint64_t OutputFile::sum_of_the_rest() const {
  const ByteFile file(partial_, "Check the disk");
  std::uint64_t sum = 0;
  std::int64_t begin = seal_bytes;
  for (const auto& [array_begin, array_end] : arrays_) {
    sum += sum_of_words(file, begin, array_begin);
    begin = array_end;
  }
  return sum + sum_of_words(file, begin, file.size());
}

void OutputFile::write_on_root(std::uint64_t bytes, const std::function<void(hid_t)>& write) {
  close_in_parallel();
  reserve(bytes + bytes_around_array);
  together([&] {
    if (rank_ != 0) return;
    auto file = open_for_appending(partial_);
    try {
      write(file.get());
      checked(H5Fflush(file.get(), H5F_SCOPE_GLOBAL), "cannot finish writing", partial_);
    } catch (...) {
      std::error_code ignored;
      std::filesystem::resize_file(partial_, 0, ignored);  // see the destructor
      throw;
    }
    checked(file.close(), "cannot finish writing", partial_);
  });
}

void OutputFile::commit() {
  write_on_root(descriptions_.size() * 8192, [&](hid_t file) {
    for (const auto& [name, units, text] : descriptions_)
      describe(open_dataset(file, name).get(), units, text);
  });
  std::uint64_t checksum = 0;
  MPI_Reduce(&checksum_, &checksum, 1, MPI_UINT64_T, MPI_SUM, 0, comm_);
  together([&] {
    if (rank_ != 0) return;
    std::error_code code;
    const auto size = std::filesystem::file_size(partial_, code);
    if (!code) std::filesystem::resize_file(partial_, size, code);  // frees the reserved rest
    if (options_.sealed) write_seal(partial_, checksum + sum_of_the_rest());
    sync(partial_, O_WRONLY);
    if (!options_.overwrite && std::filesystem::exists(path_)) {
      keep_partial_ = true;
      throw input_error("has appeared during the run", path_, "The result was kept as " + partial_);
    }
    std::filesystem::rename(partial_, path_, code);
    if (code)
      throw environment_error("cannot be renamed (" + code.message() + ")", partial_, "Check the folder");
    sync(folder_of(path_), O_RDONLY);
  });
  partial_.clear();
}

#define MINISP_INSTANTIATE(T)                                                                           \
  template void OutputFile::write_global<T>(const std::string&, const Shape&, const std::vector<Slab>&, \
                                            const T*, const std::string&, const std::string&);
MINISP_INSTANTIATE(double)
MINISP_INSTANTIATE(float)
MINISP_INSTANTIATE(std::int64_t)
MINISP_INSTANTIATE(std::int32_t)

}  // namespace minisp::io
