// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Seconds of a collective, by who sits beside whom. Equations in doc/performance_model.md.
#pragma once

#include "perfmodel/machine.hpp"
#include "perfmodel/peers.hpp"

namespace minisp::perfmodel {

/// What a rank of a class sends in one call, in blocks of `bytes_per_peer`.
struct Blocks {
  double peers_on_node = 0, peers_off_node = 0;  ///< ranks that it sends to
  double on_node = 0, off_node = 0;              ///< blocks that it sends to them
  double link = 0;                               ///< blocks that each link of the node carries, each way
};

/// An all-to-all sends a block to every other rank. An all-gather among ranks that fill nodes evenly sends a
/// block to each other node once (comm/two_stage_gather.hpp; so do rings), and what came from all nodes to
/// the node's ranks.
Blocks blocks_of(Collective collective, const Peers& peers, const PeerClass& one, Index links_per_node);

/// One call that all groups of a family make at once.
struct CollectiveCall {
  Collective collective = Collective::all_to_all;
  const Peers& peers;
  double bytes_per_peer = 0;
  Index links_per_node = 1;
};

/// The class that ends last: with the most peers on the node where none is off it, else with the most off it.
const PeerClass& slowest_class(const Peers& peers);

/// Bytes that each link of a node carries, each way.
double bytes_of_link(const CollectiveCall& call);

/// When all ranks begin together; 0 in a group of one rank. `burst`: bytes that each link passes at once.
double wire_seconds(const CollectiveRates& rates, const CollectiveCall& call, double burst = 0);

/// From when the last rank begins, all others having waited: links carry its bytes alone.
double last_wire_seconds(const CollectiveRates& rates, const CollectiveCall& call);

/// Seconds that the mean of `ranks` ranks waits for the last one after computing for `computed` seconds.
double skew_seconds(const SkewRates& rates, Index ranks, double computed);

/// What a link may pass at once: it saves bytes up at its rate while nothing is sent (a token bucket).
class Bucket {
 public:
  Bucket(double size, double bytes_per_s);
  void rest(double seconds);
  /// The part of `bytes` that passes at once.
  double take(double bytes);

 private:
  double size_, rate_, held_;
};

}  // namespace minisp::perfmodel
