// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Defaults are those of Transformers' LlamaConfig, Qwen2Config, Qwen3Config and GPT2Config (4.57).
#include "config/hugging_face.hpp"

#include "config/architecture_fault.hpp"
#include "config/foreign_text.hpp"
#include "config/suggest.hpp"
#include "util/error.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

namespace minisp::config {

namespace {

using nlohmann::json;

/// Published ones have some kilobytes, with lists of labels a megabyte.
constexpr std::int64_t largest_file = 16 << 20;

/// A JSON object whose keys are asked for by type. null counts as absent, as it does in Transformers.
class Table {
 public:
  Table(const json& object, std::string where) : object_(object), where_(std::move(where)) {}

  std::string where(const std::string& key) const { return where_ + ": " + key; }
  bool has(const std::string& key) const { return find(key) != nullptr; }
  const json* find(const std::string& key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  std::optional<std::int64_t> integer(const std::string& key) const {
    const json* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_number_integer()) wrong(key, "a whole number");
    constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (value->is_number_unsigned() && value->get<std::uint64_t>() > largest) wrong(key, "below 2^63");
    return value->get<std::int64_t>();
  }
  std::optional<double> real(const std::string& key) const {
    const json* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_number()) wrong(key, "a number");
    return value->get<double>();
  }
  std::optional<bool> boolean(const std::string& key) const {
    const json* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_boolean()) wrong(key, "true or false");
    return value->get<bool>();
  }
  std::optional<std::string> text(const std::string& key) const {
    const json* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_string()) wrong(key, "a string");
    return value->get<std::string>();
  }
  std::int64_t required_integer(const std::string& key) const {
    if (!has(key)) missing(key);
    return *integer(key);
  }
  double required_real(const std::string& key) const {
    if (!has(key)) missing(key);
    return *real(key);
  }
  /// The value of a key that has two names, as GPT-2's sizes have.
  std::optional<std::int64_t> integer(const std::string& key, const std::string& other) const {
    const auto value = integer(key), other_value = integer(other);
    if (value && other_value && *value != *other_value)
      throw input_error(key + " is " + std::to_string(*value) + ", but " + other +
                            ", which means the same, is " + std::to_string(*other_value),
                        where(other), "Remove one of the two");
    return value ? value : other_value;
  }

  /// What miniSP does not compute is refused by key and value.
  [[noreturn]] void refuse(const std::string& key, const std::string& have) const {
    throw input_error("the value " + shown(*find(key)) + " is not supported", where(key),
                      have + ". Use another model, or change the file if you mean another model");
  }

 private:
  [[noreturn]] void wrong(const std::string& key, const std::string& expected) const {
    throw input_error("the value is " + shown(*find(key)), where(key), "It has to be " + expected);
  }
  [[noreturn]] void missing(const std::string& key) const {
    throw input_error("the key is missing", where(key), "Take the file as Transformers writes it");
  }

  const json& object_;
  std::string where_;
};

bool is_off(const json& value) {
  return value == false || value == 0 || (value.is_structured() && value.empty());
}

/// Keys that change what a model computes, in any family; each must be absent or switched off.
void refuse_features(const Table& config) {
  for (const char* key : {"quantization_config",
                          "num_experts",
                          "num_local_experts",
                          "n_routed_experts",
                          "moe_intermediate_size",
                          "attention_bias",
                          "mlp_bias",
                          "attn_logit_softcapping",
                          "final_logit_softcapping",
                          "qk_layernorm",
                          "use_qk_norm",
                          "pruned_heads",
                          "add_cross_attention",
                          "is_encoder_decoder",
                          "scale_attn_by_inverse_layer_idx",
                          "reorder_and_upcast_attn",
                          "no_rope_layers",
                          "attention_chunk_size",
                          "clip_qkv",
                          "alibi"}) {
    const json* value = config.find(key);
    if (value && !is_off(*value))
      config.refuse(key, "miniSP has no such feature; only its absence is supported");
  }
  for (const char* key : {"partial_rotary_factor", "logit_scale", "logits_scaling", "embedding_multiplier",
                          "residual_multiplier"}) {
    const json* value = config.find(key);
    if (value && *value != 1) config.refuse(key, "miniSP has only the factor 1");
  }
  if (config.boolean("scale_attn_weights") == false)
    config.refuse("scale_attn_weights", "miniSP always scales scores by 1/sqrt(head size)");
  if (const json* types = config.find("layer_types")) {
    if (!types->is_array()) config.refuse("layer_types", "It has to be a list");
    for (const json& type : *types)
      if (type != "full_attention") config.refuse("layer_types", "miniSP has only full_attention");
  }
}

/// Windows narrow attention only where `use_sliding_window` says so, from layer `max_window_layers` on.
void refuse_sliding_window(const Table& config, std::int64_t layers) {
  if (!config.boolean("use_sliding_window").value_or(false)) return;
  // Without the key the window is the classes' 4096; an explicit null switches it off, and so does a list of
  // layer types, which refuse_features() has seen to hold full attention only.
  const bool off = config.has("layer_types") || config.integer("max_window_layers").value_or(28) >= layers;
  if (!off) config.refuse("use_sliding_window", "miniSP has only full attention");
}

void read_rope_scaling(const Table& table, Architecture& a) {
  const std::string key = table.has("rope_type") || !table.has("type") ? "rope_type" : "type";
  const std::string type = table.text(key).value_or("default");
  if (table.has("partial_rotary_factor") && table.real("partial_rotary_factor") != 1.0)
    table.refuse("partial_rotary_factor", "miniSP turns whole heads");
  if (type == "default") return;
  if (type != "llama3") table.refuse(key, "miniSP has rotary scalings \"default\" and \"llama3\"");
  RopeScaling scaling;
  scaling.factor = table.required_real("factor");
  scaling.low_frequency_factor = table.required_real("low_freq_factor");
  scaling.high_frequency_factor = table.required_real("high_freq_factor");
  scaling.original_max_positions = table.required_integer("original_max_position_embeddings");
  a.rope_scaling = scaling;
}

void read_rope(const Table& config, Architecture& a) {
  a.rope_theta = config.real("rope_theta").value_or(10000.0);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* value = config.find(key);
    if (!value) continue;
    if (!value->is_object()) config.refuse(key, "It has to be a table");
    for (const auto& [name, inner] : value->items())
      if (inner.is_object()) config.refuse(key, "miniSP has one kind of rotary positions for all layers");
    const Table table(*value, config.where(key));
    a.rope_theta = table.real("rope_theta").value_or(a.rope_theta);
    read_rope_scaling(table, a);
  }
}

struct RmsDefaults {
  std::int64_t vocabulary, intermediate;
  std::optional<std::int64_t> kv_heads;  ///< none: as many as query heads
  std::optional<std::int64_t> head_dim;  ///< none: hidden / heads
  std::int64_t max_positions;
};

RmsDefaults defaults_of(Family family) {
  if (family == Family::llama) return {32000, 11008, std::nullopt, std::nullopt, 2048};
  if (family == Family::qwen2) return {151936, 22016, 32, std::nullopt, 32768};
  return {151936, 22016, 32, 128, 32768};
}

/// The classes' default where the key is absent, `null_means` where it is null.
std::optional<std::int64_t> default_or_null(const json& object, const char* key,
                                            std::optional<std::int64_t> fallback, std::int64_t null_means) {
  return object.contains(key) ? null_means : fallback.value_or(null_means);
}

Architecture read_rms_model(const json& object, const Table& config, Family family) {
  const RmsDefaults defaults = defaults_of(family);
  Architecture a;
  a.family = family;
  a.hidden = config.integer("hidden_size").value_or(4096);
  a.layers = config.integer("num_hidden_layers").value_or(32);
  a.heads = config.integer("num_attention_heads").value_or(32);
  a.vocabulary = config.integer("vocab_size").value_or(defaults.vocabulary);
  a.intermediate = config.integer("intermediate_size").value_or(defaults.intermediate);
  a.max_positions = config.integer("max_position_embeddings").value_or(defaults.max_positions);
  if (a.heads < 1)
    throw input_error("the value is " + std::to_string(a.heads), config.where("num_attention_heads"),
                      "It has to be 1 or more");
  a.kv_heads = config.integer("num_key_value_heads")
                   .value_or(*default_or_null(object, "num_key_value_heads", defaults.kv_heads, a.heads));
  a.head_dim = config.integer("head_dim")
                   .value_or(*default_or_null(object, "head_dim", defaults.head_dim, a.hidden / a.heads));
  a.norm_epsilon = config.real("rms_norm_eps").value_or(1e-6);
  a.tied_head = config.boolean("tie_word_embeddings").value_or(false);
  a.qkv_bias = family == Family::qwen2;
  a.qk_norm = family == Family::qwen3;
  if (config.text("hidden_act").value_or("silu") != "silu" && config.text("hidden_act") != "swish")
    config.refuse("hidden_act", "miniSP's gated MLP has \"silu\"");
  read_rope(config, a);
  // Llama's class does not know these keys, so Transformers computes full attention with them.
  if (family != Family::llama) refuse_sliding_window(config, a.layers);
  return a;
}

Architecture read_gpt2(const Table& config) {
  Architecture a;
  a.family = Family::gpt2;
  a.norm = Norm::layer;
  a.positions = Positions::learned;
  a.mlp = Mlp::gelu_tanh;
  a.qkv_bias = true;
  a.linear_bias = true;
  a.hidden = config.integer("n_embd", "hidden_size").value_or(768);
  a.layers = config.integer("n_layer", "num_hidden_layers").value_or(12);
  a.heads = config.integer("n_head", "num_attention_heads").value_or(12);
  a.max_positions = config.integer("n_positions", "max_position_embeddings").value_or(1024);
  a.vocabulary = config.integer("vocab_size").value_or(50257);
  a.intermediate = config.integer("n_inner").value_or(4 * a.hidden);
  if (a.heads < 1 || a.hidden % a.heads != 0)
    throw input_error("the value is " + std::to_string(a.heads) + ", which does not divide the hidden size " +
                          std::to_string(a.hidden),
                      config.where("n_head"), "Set it to a divisor");
  a.kv_heads = a.heads;
  a.head_dim = a.hidden / a.heads;
  a.norm_epsilon = config.real("layer_norm_epsilon").value_or(1e-5);
  a.tied_head = config.boolean("tie_word_embeddings").value_or(true);
  const std::string activation = config.text("activation_function").value_or("gelu_new");
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh")
    config.refuse("activation_function", "miniSP has the tanh form, \"gelu_new\" or \"gelu_pytorch_tanh\"");
  return a;
}

void note_dropout(const Table& config, std::vector<std::string>& notes) {
  for (const char* key : {"attention_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop"}) {
    const double probability = config.real(key).value_or(0);
    if (probability != 0)
      notes.push_back(config.where(key) + " = " + shown(*config.find(key)) +
                      " is left out: miniSP trains without dropout.");
  }
}

/// Names of the fields as the file has them, for messages.
std::string file_key(const std::string& field, Family family) {
  static const std::vector<std::array<const char*, 3>> names{
      {"hidden", "hidden_size", "n_embd"},
      {"intermediate", "intermediate_size", "n_inner"},
      {"layers", "num_hidden_layers", "n_layer"},
      {"heads", "num_attention_heads", "n_head"},
      {"kv_heads", "num_key_value_heads", "n_head"},
      {"head_dim", "head_dim", "n_head"},
      {"vocabulary", "vocab_size", "vocab_size"},
      {"max_positions", "max_position_embeddings", "n_positions"},
      {"norm_epsilon", "rms_norm_eps", "layer_norm_epsilon"}};
  for (const auto& [ours, rms, gpt2] : names)
    if (field == ours) return family == Family::gpt2 ? gpt2 : rms;
  return field.rfind("rope_", 0) == 0 && field != "rope_theta" ? "rope_scaling" : field;
}

json read_json(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw input_error("the file cannot be read", file, "A Hugging Face folder holds a config.json");
  const std::string text = read_up_to(in, largest_file, file, "Take the file as Transformers writes it");
  try {
    json object = json::parse(text);
    if (!object.is_object())
      throw input_error("this is JSON, but no table", file, "Take the file as Transformers writes it");
    return object;
  } catch (const json::exception& error) {
    throw input_error("this is no valid JSON: " + shortened(error.what()), file,
                      "Take the file as Transformers writes it");
  }
}

}  // namespace

HuggingFaceModel read_hugging_face_config(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path given(path);
  const std::string file = fs::is_directory(given) ? (given / "config.json").string() : path;
  const json object = read_json(file);
  const Table config(object, file);
  const std::vector<std::string> families{"llama", "qwen2", "qwen3", "gpt2"};
  const std::string type = config.text("model_type").value_or("");
  if (type.empty())
    throw input_error("the key is missing", config.where("model_type"), suggestion("", families));
  const auto family = std::find(families.begin(), families.end(), type) - families.begin();
  if (family == static_cast<std::ptrdiff_t>(families.size()))
    config.refuse("model_type", suggestion(shortened(type), families));

  refuse_features(config);
  HuggingFaceModel model;
  model.architecture =
      type == "gpt2" ? read_gpt2(config) : read_rms_model(object, config, static_cast<Family>(family));
  model.architecture.name = fs::absolute(file).lexically_normal().parent_path().filename().string();
  note_dropout(config, model.notes);
  if (const auto fault = find_fault(model.architecture))
    throw input_error(fault->what, config.where(file_key(fault->field, model.architecture.family)),
                      "Take the file as Transformers writes it");
  return model;
}

}  // namespace minisp::config
