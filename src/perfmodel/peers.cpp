// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "perfmodel/peers.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace minisp::perfmodel {

namespace {

/// Collects pieces: members of one group on one node.
class Counter {
 public:
  explicit Counter(Index group_ranks) : size_(group_ranks) {}

  /// `count` pieces of `members` ranks each.
  void add(Index members, Index count) {
    if (members > 0 && count > 0) ranks_[members] += members * count;
  }
  Index sends(Index members) const { return members * (size_ - members); }
  void node_sends(Index sends) { node_sends_ = std::max(node_sends_, sends); }

  Peers peers() const {
    Peers peers{size_, {}, node_sends_};
    for (const auto& [members, ranks] : ranks_)
      peers.classes.push_back({members - 1, size_ - members, ranks});
    return peers;
  }

 private:
  Index size_;
  Index node_sends_ = 0;
  std::map<Index, Index> ranks_;  // by members of the piece that they are in
};

/// x with a x = 1 modulo m; a and m have no common divisor.
Index inverse(Index a, Index m) {
  Index x = 1, y = 0, b = m;
  for (a %= m; b != 0;) {
    const Index quotient = a / b;
    std::tie(a, b) = std::pair(b, a % b);
    std::tie(x, y) = std::pair(y, x - quotient * y);
  }
  return (x % m + m) % m;
}

/// `nodes` nodes that hold `width` consecutive ranks, of which the first `left` end a group of `size`.
void add_window(Counter& counter, Index size, Index width, Index left, Index nodes) {
  const Index first = std::min(width, left), rest = width - first;
  const Index last = rest % size;
  counter.add(first, nodes);
  counter.add(size, rest / size * nodes);
  counter.add(last, nodes);
  if (nodes > 0) counter.node_sends(counter.sends(first) + counter.sends(last));
}

/// Each of `groups` groups has `members` or one more on a node of `width` ranks; exactly that many have more.
Index sends_of_even_node(const Counter& counter, Index width, Index groups, Index members) {
  const Index larger = width - groups * members;
  return larger * counter.sends(members + 1) + (groups - larger) * counter.sends(members);
}

}  // namespace

Index Peers::straddling_ranks() const {
  Index ranks = 0;
  for (const auto& one : classes)
    if (one.off_node > 0) ranks += one.ranks;
  return ranks;
}

Peers consecutive_groups(const Placement& p, Index size) {
  Counter counter(size);
  if (p.mapping == Mapping::strided) {
    const Index nodes = p.nodes(), members = size / nodes, larger = size % nodes, groups = p.ranks / size;
    counter.add(members + 1, larger * groups);
    counter.add(members, (nodes - larger) * groups);
    for (const Index width : {p.ranks / nodes, (p.ranks + nodes - 1) / nodes})
      counter.node_sends(sends_of_even_node(counter, width, groups, members));
    return counter.peers();
  }
  // Node n begins n R ranks into the job, `left` ranks before the end of a group: n R = -left modulo size.
  // `left` is a multiple of gcd(size, R), and every node with left >= R lies inside one group.
  const Index width = p.ranks_per_node, full_nodes = p.ranks / width;
  const Index divisor = std::gcd(size, width), period = size / divisor;
  const Index inverse_width = period == 1 ? 0 : inverse(width / divisor % period, period);
  Index counted = 0;
  for (Index left = divisor; left <= std::min(size, width - 1); left += divisor) {
    const Index first = (size - left) / divisor % period * inverse_width % period;
    const Index nodes = first < full_nodes ? (full_nodes - 1 - first) / period + 1 : 0;
    add_window(counter, size, width, left, nodes);
    counted += nodes;
  }
  add_window(counter, size, width, std::min(size, width), full_nodes - counted);
  if (const Index rest = p.ranks % width; rest > 0)
    add_window(counter, size, rest, size - full_nodes * width % size, 1);
  return counter.peers();
}

Peers strided_groups(const Placement& p, Index stride) {
  Counter counter(p.ranks / stride);
  if (p.mapping == Mapping::strided) {
    // A group visits every g-th node in turn.
    const Index g = std::gcd(stride, p.nodes()), visited = p.nodes() / g, size = p.ranks / stride;
    const Index members = size / visited, larger = size % visited;
    counter.add(members + 1, larger * stride);
    counter.add(members, (visited - larger) * stride);
    for (const Index width : {p.ranks / p.nodes(), (p.ranks + p.nodes() - 1) / p.nodes()})
      counter.node_sends(sends_of_even_node(counter, width, stride / g, members));
    return counter.peers();
  }
  const auto add_node = [&](Index width, Index nodes) {
    const Index members = width / stride, larger = width % stride;
    counter.add(members + 1, larger * nodes);
    counter.add(members, (stride - larger) * nodes);
    if (nodes > 0) counter.node_sends(sends_of_even_node(counter, width, stride, members));
  };
  add_node(p.ranks_per_node, p.ranks / p.ranks_per_node);
  if (const Index rest = p.ranks % p.ranks_per_node; rest > 0) add_node(rest, 1);
  return counter.peers();
}

}  // namespace minisp::perfmodel
