// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "train/self_check.hpp"

#include "comm/scalars.hpp"
#include "train/trainer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace minisp::train {

namespace {

constexpr double tolerance = 1e-12;
constexpr Index twin_tokens = 16;  // at least, of a sequence

/// FNV-1a, so that ranks can compare buffers by a number.
std::uint64_t hash_bytes(const void* data, std::size_t bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto* byte = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ byte[i]) * 0x100000001b3u;
  return hash;
}

std::vector<double> to_host(const Vector<double>& view) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  return std::vector<double>(host.data(), host.data() + host.size());
}

std::vector<double> to_host(const Matrix<const double>& view) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  return std::vector<double>(host.data(), host.data() + host.size());
}

/// A decomposition of the twin with everything it needs.
struct Twin {
  parallel::Mesh mesh;
  PhaseTimers timers;
  Trainer<double> trainer;

  Twin(const comm::Communicator& ranks, const config::Config& config, const TokenSource& tokens)
      : mesh(ranks, parallel::make_plan(config.parallel, ranks.size(), config.model, config.train.batch,
                                        config.train.sequence_length)),
        trainer(config, mesh, tokens, timers) {}
};

/// Largest relative error over the tensors. A tensor whose gradient vanishes by symmetry holds rounding
/// errors only (a key bias without rotation); it is judged against the whole gradient's size.
double worst_gradient_error(const Trainer<double>& trainer, const Trainer<double>& reference) {
  const auto a = to_host(trainer.gradients()), b = to_host(reference.gradients());
  const double norm = std::sqrt(std::inner_product(b.begin(), b.end(), b.begin(), 0.0));
  double worst = 0;
  for (const auto& entry : trainer.layout().entries())
    worst = std::max(
        worst, relative_error(a.data() + entry.offset, b.data() + entry.offset, entry.size(), 1e-6 * norm));
  return worst;
}

/// Changes one token in the middle of the first sequence of every group. Returns the number of rows of this
/// rank whose result changed though they must not see that token, and of those that changed among the others.
std::pair<Index, Index> rows_touched(Twin& twin, const config::Config& config) {
  auto rows = twin.trainer.group_rows(0);
  const auto before = to_host(twin.trainer.forward(rows));
  const Index middle = config.train.sequence_length / 2;
  auto& token = rows[static_cast<std::size_t>(middle)];
  // Neither the old nor the new token ends a document, so that the mask stays as it is.
  do token = static_cast<std::int32_t>((token + 1) % config.model.vocabulary);
  while (token == config.data.end_of_document);
  const auto after = to_host(twin.trainer.forward(rows));

  const auto& plan = twin.mesh.plan();
  const auto width = static_cast<std::size_t>(config.model.hidden);
  Index leaks = 0, changed = 0, row = 0;
  for (const auto& shard : plan.shards(twin.mesh.rank()))
    for (Index p = shard.begin; p < shard.end; ++p, ++row) {
      const auto* a = before.data() + static_cast<std::size_t>(row) * width;
      const auto* b = after.data() + static_cast<std::size_t>(row) * width;
      const bool same = std::memcmp(a, b, width * sizeof(double)) == 0;
      const bool may_see = shard.sequence == twin.mesh.group().sequence_begin && p >= middle;
      if (!same) ++(may_see ? changed : leaks);
    }
  return {leaks, changed};
}

io::CheckRow check(const std::string& name, double value, double limit) {
  return {name, value, limit, value <= limit};  // false for NaN
}

}  // namespace

double relative_error(const double* a, const double* b, Index size, double floor) {
  double difference = 0, norm = 0;
  for (Index i = 0; i < size; ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  const double denominator = std::max(std::sqrt(norm), floor);
  if (!std::isfinite(difference) || !std::isfinite(norm)) return std::numeric_limits<double>::infinity();
  if (difference == 0) return 0;
  return denominator > 0 ? std::sqrt(difference) / denominator : std::numeric_limits<double>::infinity();
}

template <class T>
Index ranks_that_differ(const comm::Communicator& world, const Vector<const T>& data) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), data);
  const auto hashes =
      comm::gather_scalar(world, std::bit_cast<Index>(hash_bytes(host.data(), host.size() * sizeof(T))));
  return static_cast<Index>(hashes.size()) - std::count(hashes.begin(), hashes.end(), hashes.front());
}

config::Config twin_of(const config::Config& config, int sequence_degree) {
  config::Config twin = config;
  twin.random_weights = true;
  twin.train.precision = config::Precision::fp64;
  twin.train.gradient_precision = config::GradientPrecision::model;
  twin.train.accumulation = std::min<Index>(config.train.accumulation, 2);
  const Index k = sequence_degree;
  twin.train.sequence_length = k * ((twin_tokens + k - 1) / k);
  twin.train.initial_standard_deviation = 0.2;  // attention that is far from uniform
  auto& m = twin.model;
  m.layers = std::min<Index>(m.layers, 2);
  m.head_dim = std::min<Index>(m.head_dim, 8);
  m.hidden = std::min<Index>(m.hidden, 32);
  m.intermediate = std::min<Index>(m.intermediate, 48);
  // At least as many as the twin's language and a change of one token need.
  m.vocabulary = std::clamp<Index>(m.vocabulary, 8, 64);
  m.max_positions = std::max(m.max_positions, twin.train.sequence_length);
  twin.data = {};
  twin.data.source = config::DataSource::synthetic;
  twin.data.seed = config.data.seed;
  if (config.data.end_of_document >= 0) {
    twin.data.end_of_document = 0;
    twin.data.mean_document_length = 6;
  }
  return twin;
}

std::vector<io::CheckRow> self_check(const comm::Communicator& world, const config::Config& config) {
  const auto plan = parallel::make_plan(config.parallel, world.size(), config.model, config.train.batch,
                                        config.train.sequence_length);
  const config::Config twin_config = twin_of(config, plan.sequence_degree);
  config::Config alone_config = twin_config;
  alone_config.parallel = {};
  const auto tokens = make_token_source(twin_config);
  const auto self = comm::Communicator::self();
  Twin twin(world, twin_config, *tokens);
  Twin alone(self, alone_config, *tokens);

  const auto result = twin.trainer.compute_gradients();
  const auto reference = alone.trainer.compute_gradients();
  std::vector<io::CheckRow> checks;
  checks.push_back(check("loss against one rank",
                         comm::maximum(world, relative_error(&result.loss, &reference.loss, 1)), tolerance));
  checks.push_back(check("gradients against one rank",
                         comm::maximum(world, worst_gradient_error(twin.trainer, alone.trainer)), tolerance));
  twin.trainer.step();
  checks.push_back(check("ranks with other weights",
                         static_cast<double>(ranks_that_differ<double>(world, twin.trainer.weights())), 0));
  const auto [leaks, changed] = rows_touched(twin, twin_config);
  checks.push_back(check("tokens that see a later one", static_cast<double>(comm::sum(world, leaks)), 0));
  // The check above would pass on a model that sees nothing: the token itself and later ones must have
  // changed.
  const bool reached = comm::sum(twin.mesh.sequence(), changed) > 0;
  checks.push_back(check("ranks of groups in which a change reaches no token",
                         static_cast<double>(comm::sum(world, Index(reached ? 0 : 1))), 0));
  return checks;
}

template Index ranks_that_differ<bfloat16>(const comm::Communicator&, const Vector<const bfloat16>&);
template Index ranks_that_differ<float>(const comm::Communicator&, const Vector<const float>&);
template Index ranks_that_differ<double>(const comm::Communicator&, const Vector<const double>&);

}  // namespace minisp::train
