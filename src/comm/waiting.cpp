// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "comm/waiting.hpp"

#include <algorithm>
#include <limits>

namespace minisp::comm {

namespace {

constexpr std::size_t piece_elements = 1 << 16;  // arrivals of all ranks that are looked at together

std::vector<int> gather(Backend& backend, int value) {
  std::vector<int> all(static_cast<std::size_t>(backend.size()));
  backend.host_all_gather(&value, all.data(), sizeof(value));
  return all;
}

/// Adds one transfer, which the last rank came to at `last`.
void add(const Transfer& transfer, const CommonClock& clock, double last, int last_world_rank, Waiting& sum) {
  const auto line = static_cast<std::size_t>(transfer.line);
  double wait = 0, wire = 0;
  const auto divide = [&](double begin, double end) {
    const double middle = std::clamp(last, begin, end);
    wait += middle - begin;
    wire += end - middle;
  };
  divide(clock(transfer.begin), clock(transfer.end));
  divide(clock(transfer.wait_begin), clock(transfer.wait_end));
  sum.wait[line] += wait;
  sum.wire[line] += wire;
  sum.waited_for[static_cast<std::size_t>(last_world_rank)] += wait;
}

}  // namespace

void add_waiting(const Communicator& communicator, const Ledger& ledger, const CommonClock& clock,
                 int world_rank, int world_ranks, Waiting& sum, const TransferVisitor& visit) {
  sum.wait.resize(ledger.entries().size());
  sum.wire.resize(ledger.entries().size());
  sum.waited_for.resize(static_cast<std::size_t>(world_ranks));
  Backend& backend = communicator.backend();
  const auto& transfers = ledger.transfers(communicator.number());
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto world_rank_of = gather(backend, world_rank);
  const auto counts = gather(backend, static_cast<int>(transfers.size()));
  const auto count = static_cast<std::size_t>(*std::min_element(counts.begin(), counts.end()));

  const std::size_t piece =
      std::clamp<std::size_t>(piece_elements / ranks, 1, std::max<std::size_t>(count, 1));
  std::vector<double> own(piece), all(piece * ranks);
  for (std::size_t begin = 0; begin < count; begin += piece) {
    const std::size_t here = std::min(piece, count - begin);
    for (std::size_t i = 0; i < here; ++i) {
      const auto& transfer = transfers[begin + i];
      own[i] = transfer.holds_others ? clock(transfer.begin) : std::numeric_limits<double>::lowest();
    }
    backend.host_all_gather(own.data(), all.data(), here * sizeof(double));
    for (std::size_t i = 0; i < here; ++i) {
      std::size_t last = 0;
      for (std::size_t rank = 1; rank < ranks; ++rank)
        if (all[rank * here + i] > all[last * here + i]) last = rank;
      add(transfers[begin + i], clock, all[last * here + i], world_rank_of[last], sum);
      if (visit) visit(transfers[begin + i], all[last * here + i], world_rank_of[last]);
    }
  }
}

}  // namespace minisp::comm
