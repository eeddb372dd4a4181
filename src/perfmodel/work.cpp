// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "perfmodel/work.hpp"

#include <algorithm>
#include <cmath>

namespace minisp::perfmodel {

namespace {

using config::Recompute;
using config::Sharding;

constexpr double head_tile_rows = 256;  // rows of the logits that exist at once (model/transformer.cpp)
constexpr double cache_line_bytes = 64;
constexpr double sum_piece_bytes = double(32 << 20);  // a long sum goes in pieces (comm/all_reduce.cpp)

double ceil_div(double a, double b) {
  return std::ceil(a / b);
}

/// Writes the events of a step. Sizes are doubles: products of them outgrow 64 bits.
class StepWriter {
 public:
  StepWriter(const config::Config& config, const Decomposition& decomposition, const GroupLoad& load)
      : config_(config), a_(config.model), d_(decomposition), load_(load), units_(unit_sizes(config.model)) {
    using config::Precision;
    const auto precision = config.train.precision;
    e_ = precision == Precision::fp64 ? 8 : precision == Precision::fp32 ? 4 : 2;
    sum_ = precision == Precision::fp64 ? 8 : 4;
    mixed_ = precision == Precision::bf16;
    gradient_ = config.train.gradient_precision == config::GradientPrecision::fp32 ? sum_ : e_;
    k_ = double(d_.sequence_degree);
    t_ = load.tokens / k_;
    hidden_ = double(a_.hidden);
    head_ = double(a_.head_dim);
    q_ = double(a_.q_size());
    kv_ = double(a_.kv_size());
    sent_kv_ = double(std::max(a_.kv_heads, d_.sequence_degree)) * head_;
    inner_ = double(a_.intermediate);
    up_ = a_.mlp == config::Mlp::swiglu ? 2 * inner_ : inner_;
    shards_weights_ = d_.sharding == Sharding::zero3 || d_.sharding == Sharding::mics;
    shards_gradients_ = shards_weights_ || d_.sharding == Sharding::zero2;
  }

  std::vector<Event> write() {
    const double micro_steps = double(config_.train.accumulation);
    compute("data", {micro_steps, 0, 4 * load_.tokens * micro_steps, 0});
    scalar("data", Scope::world);
    const double kept = shards_gradients_ ? shard_elements() : elements();
    compute("zero_gradients", {1, 0, gradient_ * kept, 0});
    for (Index micro = 0; micro < config_.train.accumulation; ++micro) {
      forward();
      head();
      backward();
    }
    finish_gradients();
    scalar("loss_reduction", Scope::world);
    const double updated = d_.sharding == Sharding::none ? elements() : shard_elements();
    compute("gradient_norm", {1, 0, gradient_ * updated, 0});
    if (d_.sharding != Sharding::none) scalar("gradient_norm", Scope::shard);
    const double units = double(a_.layers + 2);
    const double moments = config_.train.optimizer == config::OptimizerKind::adamw ? 4 * sum_ : 0;
    compute("optimizer", {units, 0, updated * (2 * sum_ + moments + gradient_ + (mixed_ ? e_ : 0)), 0});
    if (d_.sharding == Sharding::zero1 || d_.sharding == Sharding::zero2)
      for_units([&](double unit, double count) { gather(unit, count, false); });
    return std::move(events_);
  }

 private:
  void compute(const char* phase, const Work& work) { events_.push_back({.phase = phase, .work = work}); }
  void send(const char* phase, Collective collective, Scope scope, double calls, double bytes_per_peer) {
    events_.push_back({.phase = phase,
                       .computes = false,
                       .work = {},
                       .collective = collective,
                       .scope = scope,
                       .calls = calls,
                       .bytes_per_peer = bytes_per_peer});
  }
  void scalar(const char* phase, Scope scope) { send(phase, Collective::all_gather, scope, 1, 8); }

  double elements() const {
    return double(units_.embeddings) + double(a_.layers) * double(units_.block) + double(units_.last);
  }
  double chunk(double unit) const { return ceil_div(unit, double(d_.shard_ranks)); }
  double shard_elements() const {
    return chunk(double(units_.embeddings)) + double(a_.layers) * chunk(double(units_.block)) +
           chunk(double(units_.last));
  }
  /// body(elements of a unit, how many there are of it).
  template <class Body>
  void for_units(const Body& body) const {
    body(double(units_.embeddings), 1);
    body(double(units_.block), double(a_.layers));
    body(double(units_.last), 1);
  }

  // ---- arithmetic

  /// C (m, n) of T = A (m, k) B (k, n).
  Work product(double m, double n, double k) const {
    return {1, 2 * m * n * k, e_ * (m * k + k * n + m * n), 0};
  }
  /// A weight's gradient (m, n) += over k tokens.
  Work weight_gradient(double m, double n, double k) const {
    return {1, 2 * m * n * k, e_ * k * (m + n) + 2 * sum_ * m * n, 0};
  }
  /// A pass over `arrays` arrays of T tokens by `width`.
  Work rows(double arrays, double width, double exponentials = 0) const {
    return {1, 0, arrays * t_ * width * e_, exponentials};
  }
  void norm(double arrays) { compute("norm", rows(arrays, hidden_)); }
  void dropout() {
    if (config_.train.dropout > 0) compute("dropout", rows(2, hidden_));
  }
  void rope_pack() { compute("rope_pack", {1, 0, t_ * e_ * (q_ + 2 * kv_ + q_ + 2 * sent_kv_), 0}); }
  /// Scores of all pairs of this rank's heads: `products` products of head_dim a score.
  void attention(const char* phase, double products, double arrays) {
    const double scores = load_.visible_pairs * double(a_.heads) / k_;
    const double row = std::max(e_ * head_, cache_line_bytes);  // heads are taken one after the other
    compute(phase, {1, products * 2 * head_ * scores, arrays * t_ * row * (q_ + sent_kv_) / head_, scores});
  }
  /// Heads come in K blocks of columns, each a product of its own that adds to the same rows.
  void linear_output(bool backward) {
    Work work = product(t_, hidden_, q_ / k_) * k_;
    if (backward) work += weight_gradient(hidden_, q_ / k_, t_) * k_;
    compute("linear_output", work);
  }
  void exchange(const char* phase, double width) {
    if (d_.sequence_degree > 1) send(phase, Collective::all_to_all, Scope::sequence, 1, e_ * t_ * width / k_);
  }

  // ---- a micro-step, in the order of model/transformer.cpp and model/block.cpp

  void attention_forward() {
    exchange("exchange_qkv forward", q_ + 2 * sent_kv_);
    attention("attention forward", 2, 2);
    exchange("exchange_output forward", q_);
  }
  void attention_branch() {
    compute("linear_qkv", product(t_, q_ + 2 * kv_, hidden_));
    rope_pack();
    attention_forward();
    linear_output(false);
    dropout();
    norm(4);
  }

  void forward() {
    if (shards_weights_) gather(double(units_.embeddings), 1, false);
    compute("embedding", rows(2, hidden_));
    if (shards_weights_) gather(double(units_.block), 1, false);
    norm(2);
    for (Index layer = 0; layer < a_.layers; ++layer) {
      const bool last = layer + 1 == a_.layers;
      attention_branch();
      Work mlp = product(t_, up_, hidden_);
      mlp += rows(1, up_ + inner_, t_ * inner_);
      mlp += product(t_, hidden_, inner_);
      compute("mlp", mlp);
      dropout();
      if (shards_weights_) gather(double(last ? units_.last : units_.block), 1, true);
      norm(4);
    }
  }

  void head() {
    if (shards_weights_ && a_.tied_head) gather(double(units_.embeddings), 1, false);
    const double v = double(a_.vocabulary), tiles = ceil_div(t_, head_tile_rows), tile = t_ / tiles;
    Work work{1, 2 * tile * v * hidden_, e_ * hidden_ * (tile + v) + sum_ * tile * v, 0};
    work += {1, 0, (3 * sum_ + e_) * tile * v, tile * v};
    work += product(tile, hidden_, v);
    work += weight_gradient(v, hidden_, tile);
    compute("head_loss", work * tiles);
    norm(4);
    retire(double(units_.last));
  }

  void recompute() {
    if (config_.train.recompute == Recompute::selective) attention("attention forward", 2, 2);
    if (config_.train.recompute != Recompute::full) return;
    norm(2);
    attention_branch();
    compute("mlp", product(t_, up_, hidden_));
  }

  void backward() {
    for (Index layer = a_.layers; layer-- > 0;) {
      if (shards_weights_) gather(double(units_.block), 1, layer + 1 < a_.layers);
      recompute();
      norm(2);
      dropout();
      Work mlp = product(t_, inner_, hidden_);
      mlp += rows(1, 2 * up_ + 2 * inner_, t_ * inner_);
      mlp += weight_gradient(hidden_, inner_, t_);
      mlp += weight_gradient(up_, hidden_, t_);
      mlp += product(t_, hidden_, up_);
      compute("mlp", mlp);
      norm(4);
      norm(2);
      dropout();
      linear_output(true);
      exchange("exchange_output backward", q_);
      attention("attention backward", 5, 4);
      exchange("exchange_qkv backward", q_ + 2 * sent_kv_);
      rope_pack();
      Work qkv = weight_gradient(q_ + 2 * kv_, hidden_, t_);
      qkv += product(t_, hidden_, q_ + 2 * kv_);
      compute("linear_qkv", qkv);
      norm(4);
      retire(double(units_.block));
    }
    compute("embedding", {1, 0, t_ * hidden_ * (e_ + 2 * sum_), 0});
    retire(double(units_.embeddings));
  }

  // ---- parameters

  void gather(double unit, double calls, bool prefetched) {
    send("gather weights", Collective::all_gather, Scope::shard, calls, e_ * chunk(unit));
    events_.back().prefetched = prefetched && config_.parallel.prefetch;
  }
  /// Every rank sums its chunk of what came from P ranks.
  void sum_of_chunks(double calls, double ranks, double chunk_elements) {
    compute("reduce gradients", {calls, 0, calls * gradient_ * chunk_elements * (ranks + 1), 0});
  }
  void reduce_scatter(double unit, double calls) {
    send("reduce gradients", Collective::all_to_all, Scope::shard, calls, gradient_ * chunk(unit));
    sum_of_chunks(calls, double(d_.shard_ranks), chunk(unit));
  }
  void all_reduce(double elements, double ranks, Scope scope, double calls) {
    const double part = ceil_div(elements, ranks);
    const double pieces = std::max(1.0, ceil_div(gradient_ * elements, sum_piece_bytes));
    const double bytes = gradient_ * part / pieces;
    send("reduce gradients", Collective::all_to_all, scope, calls * pieces, bytes);
    if (ranks > 1) sum_of_chunks(calls, ranks, part);
    send("reduce gradients", Collective::all_gather, scope, calls * pieces, bytes);
  }
  /// A unit's gradient is complete for this micro-step (ParameterStore::retire_gradient).
  void retire(double unit) {
    if (!shards_gradients_ && !(mixed_ && gradient_ == e_)) return;
    const bool narrows = mixed_ && gradient_ == e_;
    compute("reduce gradients",
            {1, 0, unit * (sum_ + (narrows ? sum_ + (shards_gradients_ ? 1 : 2) * gradient_ : 0)), 0});
    if (shards_gradients_) reduce_scatter(unit, 1);
  }
  void finish_gradients() {
    if (d_.sharding == Sharding::none)
      for_units([&](double unit, double count) { all_reduce(unit, double(d_.ranks), Scope::world, count); });
    if (d_.sharding == Sharding::zero1)
      for_units([&](double unit, double count) { reduce_scatter(unit, count); });
    if (d_.sharding == Sharding::mics)
      all_reduce(shard_elements(), double(d_.ranks / d_.shard_ranks), Scope::replicas, 1);
  }

  const config::Config& config_;
  const config::Architecture& a_;
  const Decomposition& d_;
  const GroupLoad& load_;
  UnitSizes units_;
  double e_ = 0, sum_ = 0, gradient_ = 0;  // bytes of an element, of a sum, of a gradient
  double k_ = 0, t_ = 0, hidden_ = 0, head_ = 0, q_ = 0, kv_ = 0, sent_kv_ = 0, inner_ = 0, up_ = 0;
  bool mixed_ = false, shards_weights_ = false, shards_gradients_ = false;
  std::vector<Event> events_;
};

}  // namespace

Work& Work::operator+=(const Work& other) {
  calls += other.calls;
  flops += other.flops;
  bytes += other.bytes;
  exponentials += other.exponentials;
  return *this;
}

Work Work::operator*(double factor) const {
  return {calls * factor, flops * factor, bytes * factor, exponentials * factor};
}

GroupLoad group_load(const config::Config& config, double sequences, double length) {
  GroupLoad load{sequences * length, sequences * length * (length + 1) / 2};
  const bool documents = config.data.source == config::DataSource::synthetic &&
                         config.data.end_of_document >= 0 && config.data.mean_document_length > 0;
  if (!documents) return load;
  // A token ends its document with probability 1/D. The query at p sees key p - j when none of the j tokens
  // from there on has ended it: sum over j <= p < S of x^j with x = 1 - 1/D.
  const double mean = config.data.mean_document_length, x = 1 - 1 / mean;
  load.visible_pairs = sequences * mean * (length - x * mean * (1 - std::pow(x, length)));
  return load;
}

std::vector<Event> step_of(const config::Config& config, const Decomposition& decomposition,
                           const GroupLoad& load) {
  return StepWriter(config, decomposition, load).write();
}

UnitSizes unit_sizes(const config::Architecture& a) {
  const Index hidden = a.hidden, q = a.q_size(), kv = a.kv_size();
  const Index norm = a.norm == config::Norm::layer ? 2 * hidden : hidden;
  const Index up = (a.mlp == config::Mlp::swiglu ? 2 : 1) * a.intermediate;
  UnitSizes sizes;
  sizes.embeddings = a.vocabulary * hidden;
  if (a.positions == config::Positions::learned) sizes.embeddings += a.max_positions * hidden;
  sizes.block = 2 * norm + (q + 2 * kv) * hidden + q * hidden + (up + a.intermediate) * hidden;
  if (a.qkv_bias) sizes.block += q + 2 * kv;
  if (a.qk_norm) sizes.block += 2 * a.head_dim;
  if (a.linear_bias) sizes.block += hidden + up + hidden;
  sizes.last = norm + (a.tied_head ? 0 : a.vocabulary * hidden);
  return sizes;
}

}  // namespace minisp::perfmodel
