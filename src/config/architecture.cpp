// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/architecture.hpp"

#include "config/architecture_fault.hpp"
#include "config/enum_names.hpp"
#include "util/error.hpp"

#include <array>
#include <utility>

namespace minisp::config {

const char* to_string(Family family) {
  return name_of(family);
}

std::int64_t Architecture::parameters() const {
  const std::int64_t norm_size = norm == Norm::layer ? 2 * hidden : hidden;
  std::int64_t attention = hidden * (q_size() + 2 * kv_size()) + q_size() * hidden;
  if (qkv_bias) attention += q_size() + 2 * kv_size();
  if (qk_norm) attention += 2 * head_dim;
  std::int64_t mlp_size = (mlp == Mlp::swiglu ? 3 : 2) * hidden * intermediate;
  if (linear_bias) {
    attention += hidden;
    mlp_size += (mlp == Mlp::swiglu ? 2 : 1) * intermediate + hidden;
  }
  std::int64_t total = layers * (attention + mlp_size + 2 * norm_size) + norm_size;
  total += vocabulary * hidden * (tied_head ? 1 : 2);
  if (positions == Positions::learned) total += max_positions * hidden;
  return total;
}

namespace {

// Products of any sizes within these limits, summed over a model, stay below 2^63.
constexpr std::int64_t largest_hidden = std::int64_t{1} << 20;
constexpr std::int64_t largest_intermediate = std::int64_t{1} << 22;
constexpr std::int64_t largest_layers = std::int64_t{1} << 14;
constexpr std::int64_t largest_heads = std::int64_t{1} << 12;
constexpr std::int64_t largest_vocabulary = (std::int64_t{1} << 31) - 1;  // tokens are 32-bit integers
constexpr std::int64_t largest_positions = std::int64_t{1} << 40;

std::string is(const char* key, std::int64_t value) {
  return std::string(key) + " is " + std::to_string(value);
}

std::optional<ArchitectureFault> find_size_fault(const Architecture& a) {
  struct Size {
    const char* key;
    std::int64_t value, largest;
  };
  const std::array<Size, 8> sizes{{{"hidden", a.hidden, largest_hidden},
                                   {"intermediate", a.intermediate, largest_intermediate},
                                   {"layers", a.layers, largest_layers},
                                   {"heads", a.heads, largest_heads},
                                   {"kv_heads", a.kv_heads, largest_heads},
                                   {"head_dim", a.head_dim, largest_heads},
                                   {"vocabulary", a.vocabulary, largest_vocabulary},
                                   {"max_positions", a.max_positions, largest_positions}}};
  for (const Size& size : sizes) {
    if (size.value < 1 || size.value > size.largest)
      return ArchitectureFault{size.key, is(size.key, size.value),
                               "Give a whole number from 1 to " + std::to_string(size.largest)};
  }
  return std::nullopt;
}

/// The parts that one family's tensor names stand for.
std::optional<ArchitectureFault> find_family_fault(const Architecture& a) {
  const std::string family = to_string(a.family);
  if (a.family == Family::gpt2) {
    if (a.kv_heads != a.heads)
      return ArchitectureFault{"kv_heads",
                               is("kv_heads", a.kv_heads) + " and " + is("heads", a.heads) +
                                   ", but GPT-2's fused projection holds one key/value head per head",
                               "Set both to the same number"};
    if (a.heads * a.head_dim != a.hidden)
      return ArchitectureFault{"head_dim",
                               "heads * head_dim is " + std::to_string(a.heads * a.head_dim) + ", but " +
                                   is("hidden", a.hidden) + ", and GPT-2 needs both to be equal",
                               "Set head_dim = hidden / heads"};
    if (!a.qkv_bias) return ArchitectureFault{"qkv_bias", "GPT-2 always has biases", "Leave qkv_bias out"};
    if (a.qk_norm) return ArchitectureFault{"qk_norm", "GPT-2 has no QK norm", "Leave qk_norm out"};
  }
  const bool gpt2 = a.family == Family::gpt2;
  if ((a.norm == Norm::layer) != gpt2 || (a.positions == Positions::learned) != gpt2 ||
      (a.mlp == Mlp::gelu_tanh) != gpt2 || a.linear_bias != gpt2)
    return ArchitectureFault{"family", "norm, positions, MLP and biases are not those of " + family,
                             "Start from a preset or a folder of the family that you want"};
  return std::nullopt;
}

}  // namespace

std::optional<ArchitectureFault> find_fault(const Architecture& a) {
  if (auto fault = find_size_fault(a)) return fault;
  if (a.heads % a.kv_heads != 0)
    return ArchitectureFault{
        "kv_heads",
        is("heads", a.heads) + ", which is no multiple of kv_heads = " + std::to_string(a.kv_heads),
        "Set kv_heads to a divisor of heads (equal: multi-head attention)"};
  if (a.positions == Positions::rope && a.head_dim % 2 != 0)
    return ArchitectureFault{"head_dim",
                             is("head_dim", a.head_dim) + ", but rotary positions turn pairs of elements",
                             "Set head_dim to an even number"};
  if (!(a.norm_epsilon > 0 && a.norm_epsilon < 1))
    return ArchitectureFault{"norm_epsilon", "norm_epsilon is " + std::to_string(a.norm_epsilon),
                             "Give a number above 0 and below 1, such as 1e-5"};
  if (!(a.rope_theta > 0))
    return ArchitectureFault{"rope_theta", "rope_theta is " + std::to_string(a.rope_theta),
                             "Give a positive number, such as 10000"};
  if (a.rope_scaling) {
    const RopeScaling& s = *a.rope_scaling;
    if (a.positions != Positions::rope)
      return ArchitectureFault{"rope_scaling", "the model has learned positions, no rotary ones",
                               "Leave it out"};
    if (!(s.factor >= 1))
      return ArchitectureFault{"rope_factor", "rope_factor is " + std::to_string(s.factor),
                               "Give a number of at least 1"};
    if (!(s.low_frequency_factor > 0 && s.high_frequency_factor > s.low_frequency_factor))
      return ArchitectureFault{
          "rope_high_frequency_factor",
          "rope_low_frequency_factor = " + std::to_string(s.low_frequency_factor) +
              " and rope_high_frequency_factor = " + std::to_string(s.high_frequency_factor),
          "The first has to be positive and below the second"};
    if (s.original_max_positions < 1)
      return ArchitectureFault{"rope_original_max_positions",
                               is("rope_original_max_positions", s.original_max_positions),
                               "Give a positive number"};
  }
  return find_family_fault(a);
}

void check(const Architecture& architecture, const std::string& where) {
  if (auto fault = find_fault(architecture)) throw input_error(fault->what, where, fault->remedy);
}

}  // namespace minisp::config
