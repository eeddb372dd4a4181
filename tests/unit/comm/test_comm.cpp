// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What needs no second rank: the ledger, messages longer than an int can count, a world of one rank.
#include "comm/agree.hpp"
#include "comm/all_gather.hpp"
#include "comm/all_reduce.hpp"
#include "comm/all_to_all.hpp"
#include "comm/broadcast.hpp"
#include "comm/environment.hpp"
#include "comm/mpi_call.hpp"
#include "comm/scalars.hpp"

#include <gtest/gtest.h>

#include <new>

namespace minisp::comm {
namespace {

LedgerEntry call(const char* collective, const char* communicator, Index on_node, Index off_node) {
  LedgerEntry entry;
  entry.collective = collective;
  entry.communicator = communicator;
  entry.calls = 1;
  entry.bytes_on_node = on_node;
  entry.bytes_off_node = off_node;
  entry.seconds = 0.5;
  return entry;
}

TEST(Ledger, AddsUpByCollectivePhaseAndCommunicator) {
  Ledger ledger;
  {
    const auto forward = ledger.phase("forward");
    ledger.enter(call("all_to_all", "sequence", 10, 1));
    {
      const auto inner = ledger.phase("inner");
      ledger.enter(call("all_to_all", "sequence", 100, 0));
    }
    ledger.enter(call("all_to_all", "sequence", 20, 2));
    ledger.enter(call("all_to_all", "world", 3, 0));
    ledger.enter(call("barrier", "world", 0, 0));
  }
  ledger.enter(call("barrier", "world", 0, 0));

  const auto& entries = ledger.entries();
  ASSERT_EQ(entries.size(), 5u);
  EXPECT_EQ(entries[0].phase, "forward");
  EXPECT_EQ(entries[0].calls, 2);
  EXPECT_EQ(entries[0].bytes_on_node, 30);
  EXPECT_EQ(entries[0].bytes_off_node, 3);
  EXPECT_DOUBLE_EQ(entries[0].seconds, 1.0);
  EXPECT_EQ(entries[1].phase, "inner");
  EXPECT_EQ(entries[1].bytes_on_node, 100);
  EXPECT_EQ(entries[2].communicator, "world");
  EXPECT_EQ(entries[3].phase, "forward");
  EXPECT_EQ(entries[4].phase, "");
  ledger.reset();
  EXPECT_TRUE(ledger.entries().empty());
}

TEST(MessageType, HoldsExactlyTheBytesWhateverTheirNumber) {
  // Types only: no memory of these sizes is touched.
  const std::size_t gib = std::size_t{1} << 30;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, 2 * gib - 1, 2 * gib, 2 * gib + 1, 4 * gib,
                                  4 * gib + 5, 100 * gib + 7}) {
    const MessageType message(bytes);
    MPI_Count size = 0, lower = 0, extent = 0;
#if MPI_VERSION >= 4  // 4.1 deprecates the older names
    ASSERT_EQ(MPI_Type_size_c(message.type(), &size), MPI_SUCCESS);
    ASSERT_EQ(MPI_Type_get_extent_c(message.type(), &lower, &extent), MPI_SUCCESS);
#else
    ASSERT_EQ(MPI_Type_size_x(message.type(), &size), MPI_SUCCESS);
    ASSERT_EQ(MPI_Type_get_extent_x(message.type(), &lower, &extent), MPI_SUCCESS);
#endif
    EXPECT_EQ(static_cast<std::size_t>(size) * static_cast<std::size_t>(message.count()), bytes);
    EXPECT_EQ(static_cast<std::size_t>(extent) * static_cast<std::size_t>(message.count()), bytes);
    EXPECT_EQ(lower, 0);
  }
}

TEST(CheckMpi, SpeaksMpisWords) {
  EXPECT_NO_THROW(check_mpi(MPI_SUCCESS, "MPI_Barrier"));
  try {
    check_mpi(MPI_ERR_COUNT, "MPI_Alltoall");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_NE(std::string(error.what()).find("MPI_Alltoall"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("count"), std::string::npos) << error.what();
  }
}

TEST(Environment, NamesTheLibrary) {
  EXPECT_FALSE(mpi_library().empty());
  EXPECT_EQ(mpi_library().find('\n'), std::string::npos);
}

TEST(Self, CollectivesAreCopiesAndSendNothing) {
  const auto self = Communicator::self();
  EXPECT_EQ(self.rank(), 0);
  EXPECT_EQ(self.size(), 1);
  EXPECT_EQ(self.topology().nodes(), 1);
  const Exec exec;
  Vector<double> a("a", 5), b("b", 5), c("c", 5);
  Kokkos::deep_copy(a, 3.0);
  all_to_all(self, exec, a, b);
  all_gather(self, exec, b, c);
  all_reduce_sum(self, exec, c);
  broadcast(self, exec, c, 0);
  auto request = start_all_to_all(self, exec, a, b);
  request.wait();
  request.wait();
  barrier(self);
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), c);
  for (Index i = 0; i < 5; ++i) EXPECT_EQ(host(i), 3.0);
  EXPECT_EQ(sum(self, Index{7}), 7);
  EXPECT_EQ(maximum(self, 2.5), 2.5);
  for (const auto& entry : self.ledger().entries()) {
    EXPECT_EQ(entry.bytes_on_node + entry.bytes_off_node, 0) << entry.collective;
    EXPECT_GT(entry.calls, 0);
  }
  const auto part = self.split(0, 0, "sequence");
  EXPECT_EQ(part.size(), 1);
  EXPECT_EQ(&part.ledger(), &self.ledger());
}

TEST(Self, BuffersThatDoNotFitAreRefused) {
  const auto self = Communicator::self();
  const Vector<float> a("a", 4), b("b", 5);
  EXPECT_THROW(all_to_all(self, Exec(), a, b), std::invalid_argument);
  const Matrix<float> wide("wide", 4, 6), dense("dense", 4, 3);
  EXPECT_THROW(all_to_all(self, Exec(), columns_of(wide, 0, 3), dense), std::invalid_argument);
  EXPECT_THROW(all_gather(self, Exec(), a, b), std::invalid_argument);
}

TEST(Guard, ReturnsWhatTheFunctionReturns) {
  const auto self = Communicator::self();
  EXPECT_EQ(collective_guard(self, [] { return 42; }), 42);
  int calls = 0;
  collective_guard(self, [&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(Guard, EveryKindOfExceptionBecomesAnAgreedError) {
  const auto self = Communicator::self();
  const auto thrown = [&](auto f) {
    try {
      collective_guard(self, f);
    } catch (const Error& error) {
      EXPECT_TRUE(error.agreed());
      return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    return environment_error("", "", "");
  };
  EXPECT_EQ(thrown([] { throw input_error("what", "where", "do this"); }).code(), ExitCode::bad_input);
  EXPECT_EQ(thrown([] { throw std::bad_alloc(); }).problem(), "out of memory");
  EXPECT_EQ(thrown([] { throw std::runtime_error("odd"); }).problem(), "odd");
  EXPECT_EQ(thrown([] { throw 5; }).code(), ExitCode::environment);
}

TEST(AllReduce, WorkspaceIsBounded) {
  EXPECT_EQ(all_reduce_workspace_bytes(1000, 4, 1), 0u);
  EXPECT_EQ(all_reduce_workspace_bytes(1000, 4, 4), 4000u);
  EXPECT_EQ(all_reduce_workspace_bytes(3, 8, 4), 64u);  // padded to one a rank, sent and received
  const Index huge = Index{1} << 40;
  EXPECT_LE(all_reduce_workspace_bytes(huge, 4, 8), std::size_t{32} << 20);
  EXPECT_GT(all_reduce_workspace_bytes(huge, 4, 8), std::size_t{31} << 20);
}

}  // namespace
}  // namespace minisp::comm
