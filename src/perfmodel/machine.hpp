// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A machine as the performance model knows it: some rates, in a TOML file (doc/performance_model.md).
#pragma once

#include "config/config.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace minisp::perfmodel {

inline constexpr double no_limit = std::numeric_limits<double>::infinity();

/// What the computing of one phase costs, all ranks of a node at work at once:
///   seconds = calls * seconds_per_call + flops / flops_per_s + bytes / bytes_per_s + exponentials / ...
struct PhaseRates {
  double seconds_per_call = 0;
  double flops_per_s = no_limit;
  double bytes_per_s = no_limit;
  double exponentials_per_s = no_limit;
};

/// What one call of a collective costs with b bytes to each peer, P_l peers on the node and P_r off it:
///   seconds = a0 + P_l a1 + P_r a2 + max(P_l b / b_on, sum of P_r b over the node's ranks / links / b_off)
struct CollectiveRates {
  double seconds_per_call = 0;             ///< a0
  double seconds_per_peer_on_node = 0;     ///< a1
  double seconds_per_peer_off_node = 0;    ///< a2
  double bytes_per_s_on_node = no_limit;   ///< b_on: of one rank
  double bytes_per_s_off_node = no_limit;  ///< b_off: of one of the node's links
};

/// How long the mean of P ranks waits for the last one after computing for t seconds:
///   seconds = (seconds_per_call + share_of_work t) log2(P)
struct SkewRates {
  double seconds_per_call = 0;
  double share_of_work = 0;
  /// Of a collective off the node: how much later than the mean rank the last one leaves it.
  double share_of_wire = 0;
};

/// Ranks that take turns on a core. Between two collectives a rank that needs c seconds of the core for
/// itself takes, until the last rank is done, n c. Within a turn it runs alone: the mean rank's own clock
/// shows
///   own = c (1 + (n - 1) c / (c + turn)),   wait = n c - own
struct ShareRates {
  double ranks_per_core = 1;    ///< n
  double seconds_per_turn = 0;  ///< 0: turns are short beside everything
};

struct Range {
  double least = 0, most = no_limit;
};

struct Machine {
  std::string name;
  std::string origin;  ///< "calibrated", "fitted", "data sheet"
  std::int64_t ranks_per_node = 1;
  std::int64_t links_per_node = 1;  ///< that carry traffic off the node, each b_off
  double link_burst_bytes = 0;      ///< that a link passes at once after a pause; it saves them up at b_off
  double memory_gib = 0;            ///< of one rank; 0: not known
  /// By precision ("bf16") and phase, as `minisp run` prints it; "default" is for those not named.
  std::map<std::string, std::map<std::string, PhaseRates>> compute;
  CollectiveRates all_to_all, all_gather;
  SkewRates skew;
  ShareRates share;            ///< with it rates of computing are those of a rank that has its core alone
  double exposed_gathers = 1;  ///< share of a prefetched gather of weights that computing does not hide
  /// Largest step of a rank over the mean one: how far the slowest rank ends behind the others.
  double slowest_over_mean = 1;
  /// What the constants were found from, by quantity (range_names()); none of a data sheet.
  std::map<std::string, Range> ranges;

  /// Throws Error (bad_input) where the machine has no rates of the precision.
  const PhaseRates& rates(config::Precision precision, const std::string& phase) const;
};

/// Quantities that a [range] may bound: "ranks", "tokens_a_rank", ...
const std::vector<std::string>& range_names();

/// Throws Error (bad_input): "FILE:LINE: KEY: what, remedy" for unknown and missing keys and for values that
/// are none (negative, no number, a rate of 0).
Machine read_machine(const std::string& file);
/// The same for text; `file` stands for it in messages.
Machine parse_machine(const std::string& text, const std::string& file);

/// The file's text, every number with unit and meaning; `notes` are comments at its head, a line each.
std::string machine_text(const Machine& machine, const std::vector<std::string>& notes);

}  // namespace minisp::perfmodel
