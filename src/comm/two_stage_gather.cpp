// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "comm/two_stage_gather.hpp"

#include "comm/mpi_call.hpp"

#include <algorithm>

namespace minisp::comm {

namespace {

/// `count` blocks of `block`, `stride` bytes apart, as a type of which one follows the other after `extent`
/// bytes.
class SpacedType {
 public:
  SpacedType(const MessageType& block, int count, std::size_t stride, std::size_t extent) {
    MPI_Datatype one = MPI_DATATYPE_NULL, all = MPI_DATATYPE_NULL;
    check_mpi(MPI_Type_contiguous(block.count(), block.type(), &one), "MPI_Type_contiguous");
    check_mpi(MPI_Type_create_hvector(count, 1, static_cast<MPI_Aint>(stride), one, &all),
              "MPI_Type_create_hvector");
    check_mpi(MPI_Type_create_resized(all, 0, static_cast<MPI_Aint>(extent), &type_),
              "MPI_Type_create_resized");
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
    check_mpi(MPI_Type_free(&one), "MPI_Type_free");
    check_mpi(MPI_Type_free(&all), "MPI_Type_free");
  }
  ~SpacedType() { MPI_Type_free(&type_); }
  SpacedType(const SpacedType&) = delete;
  SpacedType& operator=(const SpacedType&) = delete;

  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace

std::unique_ptr<TwoStageGather> TwoStageGather::make(MPI_Comm comm, const std::vector<int>& nodes) {
  const int ranks = static_cast<int>(nodes.size());
  const int width = static_cast<int>(std::count(nodes.begin(), nodes.end(), nodes.front()));
  if (width == 1 || width == ranks || ranks % width != 0) return nullptr;
  const int node_count = ranks / width;
  const bool dealt_out = nodes[1] != nodes[0];
  const auto part_of = [&](int rank) { return dealt_out ? rank % node_count : rank / width; };
  for (int rank = 0; rank < ranks; ++rank)
    for (int other = 0; other < ranks; ++other)
      if ((part_of(rank) == part_of(other)) != (nodes[rank] == nodes[other])) return nullptr;

  std::unique_ptr<TwoStageGather> gather(new TwoStageGather);
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  gather->nodes_ = node_count;
  gather->node_stride_ = dealt_out ? 1 : width;
  gather->place_stride_ = dealt_out ? node_count : 1;
  gather->place_ = dealt_out ? rank / node_count : rank % width;
  check_mpi(MPI_Comm_split(comm, gather->place_, rank, &gather->across_), "MPI_Comm_split");
  check_mpi(MPI_Comm_split(comm, part_of(rank), rank, &gather->node_), "MPI_Comm_split");
  return gather;
}

TwoStageGather::~TwoStageGather() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) return;
  for (MPI_Comm* comm : {&across_, &node_})
    if (*comm != MPI_COMM_NULL) MPI_Comm_free(comm);
}

void TwoStageGather::run(const void* send, void* receive, std::size_t block_bytes) const {
  if (block_bytes == 0) return;
  const MessageType block(block_bytes);
  const auto ranks = [&](int count) { return static_cast<std::size_t>(count) * block_bytes; };
  const SpacedType one(block, 1, 0, ranks(node_stride_));
  check_mpi(
      MPI_Allgather(send, block.count(), block.type(),
                    static_cast<std::byte*>(receive) + ranks(place_ * place_stride_), 1, one.get(), across_),
      "MPI_Allgather");
  const SpacedType of_all_nodes(block, nodes_, ranks(node_stride_), ranks(place_stride_));
  check_mpi(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, receive, 1, of_all_nodes.get(), node_),
            "MPI_Allgather");
}

}  // namespace minisp::comm
