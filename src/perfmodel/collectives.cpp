// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "perfmodel/collectives.hpp"

#include <algorithm>
#include <cmath>

namespace minisp::perfmodel {

namespace {

double seconds_of(const CollectiveRates& rates, const Blocks& blocks, double bytes_per_peer,
                  double link_bytes) {
  return rates.seconds_per_call + blocks.peers_on_node * rates.seconds_per_peer_on_node +
         blocks.peers_off_node * rates.seconds_per_peer_off_node +
         std::max(blocks.on_node * bytes_per_peer / rates.bytes_per_s_on_node,
                  std::max(0.0, link_bytes) / rates.bytes_per_s_off_node);
}

/// The slowest of all classes, where `link_bytes(blocks)` pass each link.
template <class LinkBytes>
double slowest_seconds(const CollectiveRates& rates, const CollectiveCall& call,
                       const LinkBytes& link_bytes) {
  if (call.peers.group_ranks == 1) return 0;
  double slowest = 0;
  for (const auto& one : call.peers.classes) {
    const auto blocks = blocks_of(call.collective, call.peers, one, call.links_per_node);
    slowest = std::max(
        slowest, seconds_of(rates, blocks, call.bytes_per_peer, one.off_node == 0 ? 0 : link_bytes(blocks)));
  }
  return slowest;
}

}  // namespace

Blocks blocks_of(Collective collective, const Peers& peers, const PeerClass& one, Index links_per_node) {
  const double on = double(one.on_node), off = double(one.off_node);
  const double link = double(peers.node_sends) / double(links_per_node);
  const bool in_stages = collective == Collective::all_gather && peers.classes.size() == 1;
  if (!in_stages || one.on_node == 0 || one.off_node == 0) return {on, off, on, off, link};
  const double width = on + 1, other_nodes = off / width;
  return {on, other_nodes, on * (other_nodes + 1), other_nodes, link / width};
}

const PeerClass& slowest_class(const Peers& peers) {
  return peers.node_sends > 0 ? peers.classes.front() : peers.classes.back();
}

double bytes_of_link(const CollectiveCall& call) {
  return blocks_of(call.collective, call.peers, slowest_class(call.peers), call.links_per_node).link *
         call.bytes_per_peer;
}

double wire_seconds(const CollectiveRates& rates, const CollectiveCall& call, double burst) {
  return slowest_seconds(rates, call,
                         [&](const Blocks& blocks) { return blocks.link * call.bytes_per_peer - burst; });
}

double last_wire_seconds(const CollectiveRates& rates, const CollectiveCall& call) {
  return slowest_seconds(rates, call, [&](const Blocks& blocks) {
    return std::min(blocks.link, blocks.off_node) * call.bytes_per_peer;
  });
}

double skew_seconds(const SkewRates& rates, Index ranks, double computed) {
  if (ranks == 1 || computed <= 0) return 0;
  return (rates.seconds_per_call + rates.share_of_work * computed) * std::log2(double(ranks));
}

Bucket::Bucket(double size, double bytes_per_s) : size_(size), rate_(bytes_per_s), held_(size) {}

void Bucket::rest(double seconds) {
  if (size_ > 0) held_ = std::min(size_, held_ + rate_ * seconds);
}

double Bucket::take(double bytes) {
  const double taken = std::min(held_, bytes);
  held_ -= taken;
  return taken;
}

}  // namespace minisp::perfmodel
