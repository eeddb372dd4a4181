// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "comm/mpi_call.hpp"

#include <string>

namespace minisp::comm {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw environment_error(std::string(call) + " failed: " + std::string(text, length), "MPI",
                          "Check the MPI installation, the network and the other ranks' messages");
}

namespace {

/// A type of `bytes` bytes in chunks of `chunk` and a rest.
MPI_Datatype chunked_type(std::size_t bytes, int chunk) {
  const auto size = static_cast<std::size_t>(chunk);
  const std::size_t chunks = bytes / size;
  if (chunks > INT_MAX)
    throw environment_error("a message of " + std::to_string(bytes) + " bytes", "MPI",
                            "Split the work further");
  const int rest = static_cast<int>(bytes % size);
  MPI_Datatype one = MPI_DATATYPE_NULL, all = MPI_DATATYPE_NULL, whole = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_contiguous(chunk, MPI_BYTE, &one), "MPI_Type_contiguous");
  check_mpi(MPI_Type_contiguous(static_cast<int>(chunks), one, &all), "MPI_Type_contiguous");
  const int lengths[] = {1, rest};
  const MPI_Aint offsets[] = {0, static_cast<MPI_Aint>(chunks * size)};
  const MPI_Datatype types[] = {all, MPI_BYTE};
  check_mpi(MPI_Type_create_struct(rest > 0 ? 2 : 1, lengths, offsets, types, &whole),
            "MPI_Type_create_struct");
  check_mpi(MPI_Type_commit(&whole), "MPI_Type_commit");
  check_mpi(MPI_Type_free(&one), "MPI_Type_free");
  check_mpi(MPI_Type_free(&all), "MPI_Type_free");
  return whole;
}

}  // namespace

MessageType::MessageType(std::size_t bytes, int largest_count) {
  if (bytes <= static_cast<std::size_t>(largest_count)) {
    count_ = static_cast<int>(bytes);
  } else {
    count_ = 1;
    type_ = chunked_type(bytes, largest_count);
  }
}

MessageType::~MessageType() {
  if (type_ != MPI_BYTE) MPI_Type_free(&type_);
}

}  // namespace minisp::comm
