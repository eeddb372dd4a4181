// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// MPI calls that are checked, and messages of any length.
#pragma once

#include "util/error.hpp"

#include <climits>
#include <mpi.h>

#include <cstddef>

namespace minisp::comm {

/// Throws Error (environment) with MPI's own words unless `code` is MPI_SUCCESS. Communicators have to return
/// their errors (MPI_ERRORS_RETURN).
void check_mpi(int code, const char* call);

/// `bytes` bytes as a count that fits an int and a type: MPI 3 counts in ints. Up to `largest_count` bytes
/// are that many MPI_BYTE; more are one element of a type that is made of chunks of largest_count bytes and a
/// rest.
class MessageType {
 public:
  explicit MessageType(std::size_t bytes, int largest_count = INT_MAX);
  ~MessageType();
  MessageType(const MessageType&) = delete;
  MessageType& operator=(const MessageType&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_ = 0;
  MPI_Datatype type_ = MPI_BYTE;
};

}  // namespace minisp::comm
