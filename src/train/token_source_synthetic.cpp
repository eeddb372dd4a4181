// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "train/token_source_synthetic.hpp"

#include "math/random.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>

namespace minisp::train {

namespace {
// Streams of their own, far from those of the initial weights under the same seed.
constexpr std::uint64_t language_stream = std::uint64_t{1} << 62;
constexpr std::uint64_t text_stream = std::uint64_t{1} << 63;  // + row

double branch_probability(int branch, int branching) {
  return std::ldexp(1.0, -std::min(branch + 1, branching - 1));
}

double term(double p) {
  return p > 0 ? -p * std::log(p) : 0;
}
}  // namespace

SyntheticSource::SyntheticSource(const config::Config& config)
    : seed_(config.data.seed),
      usable_tokens_(config.model.vocabulary),
      branching_(static_cast<int>(config.data.branching)) {
  if (config.data.end_of_document >= 0 && config.data.mean_document_length > 0) {
    end_of_document_ = config.data.end_of_document;
    end_probability_ = 1 / config.data.mean_document_length;
    --usable_tokens_;
  }
  permutation_.resize(static_cast<std::size_t>(std::min(config.data.symbols, usable_tokens_)));
  std::iota(permutation_.begin(), permutation_.end(), 0);
  for (std::size_t i = permutation_.size(); i > 1; --i)
    std::swap(permutation_[i - 1], permutation_[math::random_bits(seed_, language_stream, i) % i]);
}

std::int32_t SyntheticSource::token_of(std::int64_t symbol) const {
  const auto symbols = static_cast<std::int64_t>(permutation_.size());
  const std::int64_t token = symbol * usable_tokens_ / symbols;
  const bool behind_end = end_of_document_ >= 0 && token >= end_of_document_;
  return static_cast<std::int32_t>(token + (behind_end ? 1 : 0));
}

void SyntheticSource::row(std::int64_t global_row, std::span<std::int32_t> out) const {
  const auto symbols = static_cast<std::int64_t>(permutation_.size());
  const std::uint64_t stream = text_stream + static_cast<std::uint64_t>(global_row);
  bool begins = true;
  std::int64_t symbol = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const math::PhiloxBlock block = math::random_block(seed_, stream, i);
    const std::uint64_t bits = std::uint64_t{block.word[1]} << 32 | block.word[0];
    if (begins) {
      symbol = static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(symbols));
    } else if (static_cast<double>(bits >> 11) * 0x1p-53 < end_probability_) {
      out[i] = static_cast<std::int32_t>(end_of_document_);
      begins = true;
      continue;
    } else {
      const int branch = std::min(std::countr_zero(block.word[2]), branching_ - 1);
      symbol = permutation_[static_cast<std::size_t>((symbol + branch) % symbols)];
    }
    begins = false;
    out[i] = token_of(symbol);
  }
}

std::optional<double> SyntheticSource::entropy_rate() const {
  const double branches = (2 - std::ldexp(1.0, 2 - branching_)) * std::numbers::ln2;
  const double e = end_probability_;
  return term(e) + term(1 - e) + (1 - e) * branches;
}

std::vector<SyntheticSource::Successor> SyntheticSource::successors(std::int32_t token) const {
  const auto symbols = static_cast<std::int64_t>(permutation_.size());
  std::int64_t symbol = 0;
  while (symbol < symbols && token_of(symbol) != token) ++symbol;
  std::vector<Successor> list;
  if (symbol == symbols) return list;  // an end of document, or a token not in use
  if (end_probability_ > 0) list.push_back({static_cast<std::int32_t>(end_of_document_), end_probability_});
  for (int branch = 0; branch < branching_; ++branch)
    list.push_back({token_of(permutation_[static_cast<std::size_t>((symbol + branch) % symbols)]),
                    (1 - end_probability_) * branch_probability(branch, branching_)});
  return list;
}

}  // namespace minisp::train
