// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/hugging_face.hpp"
#include "config/presets.hpp"
#include "io/safetensors.hpp"
#include "model/parameters.hpp"
#include "support/training.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

namespace minisp::model {
namespace {

using config::Architecture;
using config::Family;

const std::vector<std::string> fixtures = {"llama-gqa-scaled-rope", "llama-untied-packed", "qwen2-bias",
                                           "qwen3-qk-norm", "gpt2"};

std::string folder_of(const std::string& fixture) {
  return MINISP_SOURCE_FOLDER "/tests/reference/" + fixture;
}

std::vector<double*> units_of(const ParameterLayout& layout, const Vector<double>& flat) {
  std::vector<double*> units;
  for (const auto& unit : layout.units()) units.push_back(flat.data() + unit.offset);
  return units;
}

std::vector<Architecture> small_models() {
  std::vector<Architecture> models;
  for (const auto family : {Family::llama, Family::qwen2, Family::qwen3, Family::gpt2})
    models.push_back(test::small_model(family, 4, family == Family::gpt2 ? 4 : 2));
  models.push_back(models.front());
  models.back().tied_head = true;
  return models;
}

TEST(ParameterLayout, NamesAndShapesAreThoseOfPublishedFiles) {
  for (const auto& fixture : fixtures) {
    const auto model = config::read_hugging_face_config(folder_of(fixture)).architecture;
    const ParameterLayout layout(model);
    const io::SafetensorsFolder files(folder_of(fixture));
    std::set<std::string> expected, found;
    for (const auto& name : files.names()) expected.insert(name);
    for (const auto& entry : layout.entries()) {
      EXPECT_TRUE(found.insert(entry.name).second) << entry.name << " twice";
      if (!files.contains(entry.name)) continue;
      EXPECT_EQ(entry.shape, files.shape(entry.name)) << fixture << " " << entry.name;
    }
    EXPECT_EQ(found, expected) << fixture;
  }
}

TEST(ParameterLayout, EntriesFillTheBufferWithoutGapAndCountOnce) {
  auto models = small_models();
  for (const auto& name : config::preset_names()) models.push_back(config::preset(name));
  for (const auto& model : models) {
    const ParameterLayout layout(model);
    Index next = 0;
    for (const auto& entry : layout.entries()) {
      EXPECT_EQ(entry.offset, next) << entry.name;
      EXPECT_EQ(entry.size(),
                std::accumulate(entry.shape.begin(), entry.shape.end(), Index(1), std::multiplies()));
      EXPECT_EQ(layout.find(entry.name), &entry);
      next += entry.size();
    }
    EXPECT_EQ(layout.size(), next);
    EXPECT_EQ(layout.size(), model.parameters()) << model.name;  // a tied head once
    EXPECT_EQ(layout.find("lm_head.weight") == nullptr, model.tied_head);
    EXPECT_EQ(layout.find("no such tensor"), nullptr);
  }
}

/// += 1 on every element of a view; in the order of the buffer where `seen` is to see that.
struct Marker {
  Vector<double> flat;

  void operator()(const Vector<double>& v) const {
    for (std::size_t i = 0; i < v.extent(0); ++i) v(i) += 1;
  }
  void operator()(const Matrix<double>& m) const {
    for (std::size_t r = 0; r < m.extent(0); ++r)
      for (std::size_t c = 0; c < m.extent(1); ++c) m(r, c) += 1;
  }
};

TEST(ViewParameters, CoverEveryElementOnce) {
  for (const auto& model : small_models()) {
    const ParameterLayout layout(model);
    const Vector<double> flat("flat", layout.size());
    const auto p = view_parameters(model, layout, units_of(layout, flat));
    const Marker mark{flat};
    mark(p.embedding);
    mark(p.positions);
    for (const auto& b : p.blocks) {
      for (const auto& v : {b.norm1_weight, b.norm1_bias, b.qkv_bias, b.q_norm, b.k_norm, b.o_bias,
                            b.norm2_weight, b.norm2_bias, b.up_bias, b.down_bias})
        mark(v);
      for (const auto& m : {b.qkv_weight, b.o_weight, b.up_weight, b.down_weight}) mark(m);
    }
    mark(p.norm_weight);
    mark(p.norm_bias);
    if (model.tied_head) {
      EXPECT_EQ(p.head.data(), p.embedding.data());
    } else {
      mark(p.head);
    }
    for (Index i = 0; i < layout.size(); ++i) ASSERT_EQ(flat(i), 1) << i << " of " << to_string(model.family);
    EXPECT_EQ(layout.units().size(), static_cast<std::size_t>(model.layers) + 2);
    EXPECT_EQ(layout.units().back().offset + layout.units().back().size, layout.size());
  }
}

/// Which tensor lies where in the matrices that one product reads whole.
TEST(ViewParameters, FusedMatricesHoldTheirTensorsInOrder) {
  const auto model = test::small_model(Family::qwen2, 4, 2);
  const ParameterLayout layout(model);
  const Vector<double> flat("flat", layout.size());
  const auto fill = [&](const std::string& name, double value) {
    const auto* entry = layout.find("model.layers.1." + name);
    ASSERT_NE(entry, nullptr) << name;
    for (Index i = 0; i < entry->size(); ++i) flat(entry->offset + i) = value;
  };
  double value = 1;
  for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}) {
    fill(std::string(name) + ".weight", value);
    fill(std::string(name) + ".bias", value++);
  }
  fill("mlp.gate_proj.weight", 4);
  fill("mlp.up_proj.weight", 5);
  const auto block = view_parameters(model, layout, units_of(layout, flat)).blocks[1];
  const Index q = model.q_size(), kv = model.kv_size();
  for (Index row = 0; row < q + 2 * kv; ++row) {
    const double expected = row < q ? 1 : row < q + kv ? 2 : 3;
    EXPECT_EQ(block.qkv_bias(row), expected);
    EXPECT_EQ(block.qkv_weight(row, 0), expected);
    EXPECT_EQ(block.qkv_weight(row, model.hidden - 1), expected);
  }
  for (Index row = 0; row < 2 * model.intermediate; ++row)
    EXPECT_EQ(block.up_weight(row, 0), row < model.intermediate ? 4 : 5);
}

TEST(HuggingFaceOrder, ThereAndBack) {
  for (const auto& model : small_models()) {
    const ParameterLayout layout(model);
    HostVector<double> flat("flat", layout.size());
    for (const auto& entry : layout.entries()) {
      std::vector<double> tensor(static_cast<std::size_t>(entry.size()));
      std::iota(tensor.begin(), tensor.end(), double(entry.offset));
      const auto stored = from_hugging_face<double>(entry, tensor);
      std::copy(stored.begin(), stored.end(), flat.data() + entry.offset);
      EXPECT_EQ(to_hugging_face<double>(entry, flat), tensor) << entry.name;
      // Conv1D of GPT-2 stores (in, out): its element (1, 0) is our (0, 1).
      if (entry.transposed) {
        EXPECT_EQ(flat(entry.offset + 1), tensor[static_cast<std::size_t>(entry.shape[1])]);
      }
    }
    std::set<double> values(flat.data(), flat.data() + flat.size());
    EXPECT_EQ(static_cast<Index>(values.size()), layout.size());  // none was written over
  }
}

TEST(InitializeParameters, UsualValuesFromSeedTensorAndElementAlone) {
  auto model = test::small_model(Family::gpt2, 4, 4);
  model.hidden = 48;
  model.intermediate = 96;
  const ParameterLayout layout(model);
  const Vector<double> flat("flat", layout.size());
  const auto values_of = [&](const std::string& name) {
    const auto* entry = layout.find(name);
    return std::vector<double>(flat.data() + entry->offset, flat.data() + entry->offset + entry->size());
  };
  initialize_parameters<double>(Exec(), layout, 7, 0.02, 0, flat);
  // Any part alone is the same part: shards are made where they live.
  const Index first = layout.size() / 3, count = layout.size() / 2;
  const Vector<double> part("part", count);
  initialize_parameters<double>(Exec(), layout, 7, 0.02, first, part);
  for (Index i = 0; i < count; ++i) ASSERT_EQ(part(i), flat(first + i)) << i;
  for (const double bias : values_of("transformer.h.0.attn.c_attn.bias")) EXPECT_EQ(bias, 0);
  for (const double weight : values_of("transformer.ln_f.weight")) EXPECT_EQ(weight, 1);
  // Deviation of n normal numbers is known to 1 / sqrt(2 n); 4608 and more here: five of those are 5 %.
  const auto deviation = [&](const std::string& name) {
    const auto values = values_of(name);
    double sum = 0;
    for (const double x : values) sum += x * x;
    return std::sqrt(sum / double(values.size()));
  };
  EXPECT_NEAR(deviation("transformer.h.1.mlp.c_fc.weight"), 0.02, 0.05 * 0.02);
  EXPECT_NEAR(deviation("transformer.h.1.mlp.c_proj.weight"), 0.01, 0.05 * 0.01);  // / sqrt(2 * 2 layers)

  // A tensor does not depend on the sizes of the others, and no two share their numbers.
  const auto before = values_of("transformer.h.0.mlp.c_fc.weight");
  EXPECT_NE(before, values_of("transformer.h.1.mlp.c_fc.weight"));
  model.vocabulary += 1;
  const ParameterLayout other(model);
  const Vector<double> wider("flat", other.size());
  initialize_parameters<double>(Exec(), other, 7, 0.02, 0, wider);
  const auto* entry = other.find("transformer.h.0.mlp.c_fc.weight");
  EXPECT_EQ(std::vector<double>(wider.data() + entry->offset, wider.data() + entry->offset + entry->size()),
            before);
  initialize_parameters<double>(Exec(), layout, 8, 0.02, 0, flat);
  EXPECT_NE(values_of("transformer.h.0.mlp.c_fc.weight"), before);
}

}  // namespace
}  // namespace minisp::model
