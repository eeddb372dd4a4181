// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/schema.hpp"

#include "config/enum_names.hpp"
#include "config/suggest.hpp"
#include "util/error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <type_traits>
#include <utility>

namespace minisp::config {

namespace {

struct Range {
  double smallest = -std::numeric_limits<double>::infinity();
  double largest = std::numeric_limits<double>::infinity();
  bool above = false;  ///< smallest itself is out
  bool below = false;  ///< largest itself is out

  bool holds(double x) const {
    return (above ? x > smallest : x >= smallest) && (below ? x < largest : x <= largest);
  }
  std::string text() const;
};

std::string number_text(double x) {
  // Shortest of the precisions that reads back as the same number, and recognisable as TOML real.
  for (int digits = 6; digits <= 17; ++digits) {
    std::ostringstream out;
    out.precision(digits);
    out << x;
    if (std::stod(out.str()) == x || digits == 17) return out.str();
  }
  return {};
}

std::string real_text(double x) {
  std::string text = number_text(x);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string Range::text() const {
  std::string text;
  if (std::isfinite(smallest)) text = (above ? "> " : ">= ") + number_text(smallest);
  if (std::isfinite(largest))
    text += (text.empty() ? "" : " and ") + std::string(below ? "< " : "<= ") + number_text(largest);
  return text;
}

const Range any{};
const Range positive{0, std::numeric_limits<double>::infinity(), true};
const Range not_negative{0};
Range at_least(double smallest) {
  return {smallest};
}
Range between(double smallest, double largest) {
  return {smallest, largest};
}
const Range fraction{0, 1, false, true};

// Sizes of a step are bounded so that tokens of a step, counted in 64 bits, cannot overflow.
constexpr double most_sequences = 1 << 20;
constexpr double most_accumulation = 1 << 10;
constexpr double longest_sequence = 1 << 30;
constexpr double longest_delay = 60;

std::string shown(const Value& value) {
  if (const auto* i = std::get_if<std::int64_t>(&value)) return std::to_string(*i);
  if (const auto* d = std::get_if<double>(&value)) return std::isfinite(*d) ? real_text(*d) : "not finite";
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const auto* s = std::get_if<std::string>(&value)) return toml_quoted(*s);
  return "of type " + std::get<OtherValue>(value).type;
}

[[noreturn]] void wrong_type(const Value& value, const std::string& where, const std::string& expected) {
  throw input_error("the value is " + shown(value), where, "It has to be " + expected);
}

void require_range(double x, const Range& range, const Value& value, const std::string& where) {
  if (!range.holds(x))
    throw input_error("the value is " + shown(value), where, "It has to be " + range.text());
}

std::int64_t integer_of(const Value& value, const Range& range, const std::string& where) {
  const auto* i = std::get_if<std::int64_t>(&value);
  if (!i) wrong_type(value, where, "a whole number" + (range.text().empty() ? "" : " " + range.text()));
  require_range(static_cast<double>(*i), range, value, where);
  return *i;
}

double real_of(const Value& value, const Range& range, const std::string& where) {
  double x = 0;
  if (const auto* d = std::get_if<double>(&value)) {
    x = *d;
  } else if (const auto* i = std::get_if<std::int64_t>(&value)) {
    x = static_cast<double>(*i);
  } else {
    wrong_type(value, where, "a number" + (range.text().empty() ? "" : " " + range.text()));
  }
  if (!std::isfinite(x)) wrong_type(value, where, "a finite number");
  require_range(x, range, value, where);
  return x;
}

bool boolean_of(const Value& value, const std::string& where) {
  const auto* b = std::get_if<bool>(&value);
  if (!b) wrong_type(value, where, "true or false");
  return *b;
}

std::string text_of(const Value& value, const std::string& where) {
  const auto* s = std::get_if<std::string>(&value);
  if (!s) wrong_type(value, where, "a string in quotes");
  return *s;
}

/// Index of the word that `value` is among `words`.
std::size_t choice_of(const Value& value, const std::vector<std::string>& words, const std::string& where) {
  const auto* s = std::get_if<std::string>(&value);
  const auto found = s ? std::find(words.begin(), words.end(), *s) : words.end();
  if (found == words.end())
    throw input_error("the value is " + shown(value), where, suggestion(s ? *s : "", words));
  return static_cast<std::size_t>(found - words.begin());
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " | ") + word;
  return text;
}

/// A key whose value is one member of one of Config's tables: set and get follow from the member's type.
template <class Table, class T>
Key member(std::string name, Table Config::*table, T Table::*field, std::string unit, Range range,
           std::string description) {
  Key key{.name = std::move(name),
          .unit = std::move(unit),
          .range = range.text(),
          .description = std::move(description)};
  if constexpr (std::is_same_v<T, bool>) {
    key.type = "boolean";
    key.set = [=](Config& c, const Value& v, const std::string& where) {
      c.*table.*field = boolean_of(v, where);
    };
    key.get = [=](const Config& c) -> std::string { return c.*table.*field ? "true" : "false"; };
  } else if constexpr (std::is_same_v<T, std::string>) {
    key.type = "string";
    key.is_text = true;
    key.set = [=](Config& c, const Value& v, const std::string& where) {
      c.*table.*field = text_of(v, where);
    };
    key.get = [=](const Config& c) { return toml_quoted(c.*table.*field); };
  } else if constexpr (std::is_same_v<T, double>) {
    key.type = "real";
    key.set = [=](Config& c, const Value& v, const std::string& where) {
      c.*table.*field = real_of(v, range, where);
    };
    key.get = [=](const Config& c) { return real_text(c.*table.*field); };
  } else if constexpr (std::is_enum_v<T>) {
    const std::vector<std::string> words(enum_names<T>.begin(), enum_names<T>.end());
    key.type = joined(words);
    key.is_text = true;
    key.set = [=](Config& c, const Value& v, const std::string& where) {
      c.*table.*field = static_cast<T>(choice_of(v, words, where));
    };
    key.get = [=](const Config& c) { return toml_quoted(name_of(c.*table.*field)); };
  } else {
    key.type = "integer";
    key.set = [=](Config& c, const Value& v, const std::string& where) {
      c.*table.*field = static_cast<T>(integer_of(v, range, where));
    };
    key.get = [=](const Config& c) { return std::to_string(c.*table.*field); };
  }
  return key;
}

template <class T>
Key model_member(std::string name, T Architecture::*field, std::string unit, Range range,
                 std::string description) {
  Key key = member("model." + std::move(name), &Config::model, field, std::move(unit), range,
                   std::move(description));
  key.from_preset = true;
  return key;
}

/// A number of RopeScaling, which only a model with scaled rotary positions has.
template <class T>
Key scaling_member(std::string name, T RopeScaling::*field, Range range, std::string description) {
  Key key{.name = "model." + std::move(name),
          .type = std::is_same_v<T, double> ? "real" : "integer",
          .range = range.text(),
          .description = std::move(description),
          .from_preset = true};
  key.set = [=](Config& c, const Value& v, const std::string& where) {
    if (!c.model.rope_scaling)
      throw input_error("the model's rotary positions are not scaled", where,
                        "Set model.rope_scaling = \"llama3\" too, or leave this out");
    if constexpr (std::is_same_v<T, double>) {
      *c.model.rope_scaling.*field = real_of(v, range, where);
    } else {
      *c.model.rope_scaling.*field = integer_of(v, range, where);
    }
  };
  key.get = [=](const Config& c) -> std::string {
    if (!c.model.rope_scaling) return "";
    if constexpr (std::is_same_v<T, double>) return real_text(*c.model.rope_scaling.*field);
    return number_text(static_cast<double>(*c.model.rope_scaling.*field));
  };
  return key;
}

/// Where the model comes from. parse_config() reads preset and folder before everything else, so that the
/// sizes below override what they bring.
void add_model_origin(std::vector<Key>& keys) {
  Key preset{.name = "model.preset",
             .type = "string",
             .description = "architecture by name (minisp info lists them)",
             .is_text = true};
  preset.set = [](Config&, const Value& v, const std::string& where) { text_of(v, where); };
  preset.get = [](const Config& c) { return c.model_folder.empty() ? toml_quoted(c.model.name) : ""; };
  keys.push_back(std::move(preset));

  Key folder{.name = "model.folder",
             .type = "string",
             .description = "Hugging Face folder in place of a preset: config.json, model.safetensors",
             .is_text = true};
  folder.set = [](Config& c, const Value& v, const std::string& where) {
    c.model_folder = text_of(v, where);
  };
  folder.get = [](const Config& c) { return c.model_folder.empty() ? "" : toml_quoted(c.model_folder); };
  keys.push_back(std::move(folder));

  static const std::vector<std::string> origins{"random", "folder"};
  Key weights{.name = "model.weights",
              .type = joined(origins),
              .description = "first weights: drawn from train.seed, or read from model.folder",
              .is_text = true};
  weights.set = [](Config& c, const Value& v, const std::string& where) {
    c.random_weights = choice_of(v, origins, where) == 0;
  };
  weights.get = [](const Config& c) { return toml_quoted(origins[c.random_weights ? 0 : 1]); };
  keys.push_back(std::move(weights));
}

void add_model(std::vector<Key>& keys) {
  using A = Architecture;
  add_model_origin(keys);
  const Range size = at_least(1);
  keys.push_back(model_member("hidden", &A::hidden, "", size, "width of the residual stream"));
  keys.push_back(model_member("intermediate", &A::intermediate, "", size, "width inside the MLP"));
  keys.push_back(model_member("layers", &A::layers, "", size, "transformer blocks"));
  keys.push_back(model_member("heads", &A::heads, "", size, "query heads"));
  keys.push_back(model_member("kv_heads", &A::kv_heads, "", size, "key/value heads, a divisor of heads"));
  keys.push_back(
      model_member("head_dim", &A::head_dim, "", size, "size of a head; need not be hidden / heads"));
  keys.push_back(model_member("vocabulary", &A::vocabulary, "tokens", size, "tokens that the model knows"));
  keys.push_back(model_member("max_positions", &A::max_positions, "tokens", size,
                              "longest sequence; with learned positions the size of their table"));
  keys.push_back(
      model_member("norm_epsilon", &A::norm_epsilon, "", positive, "added to the variance in every norm"));
  keys.push_back(model_member("rope_theta", &A::rope_theta, "", positive, "base of the rotary frequencies"));

  static const std::vector<std::string> scalings{"none", "llama3"};
  Key scaling{.name = "model.rope_scaling",
              .type = joined(scalings),
              .description = "scaling of the rotary frequencies for long sequences",
              .is_text = true,
              .from_preset = true};
  scaling.set = [](Config& c, const Value& v, const std::string& where) {
    if (choice_of(v, scalings, where) == 0) {
      c.model.rope_scaling.reset();
    } else if (!c.model.rope_scaling) {
      c.model.rope_scaling.emplace();
    }
  };
  scaling.get = [](const Config& c) { return toml_quoted(scalings[c.model.rope_scaling ? 1 : 0]); };
  keys.push_back(std::move(scaling));
  keys.push_back(scaling_member("rope_factor", &RopeScaling::factor, at_least(1),
                                "llama3: how much slower the slow ones turn"));
  keys.push_back(scaling_member("rope_low_frequency_factor", &RopeScaling::low_frequency_factor, positive,
                                "llama3: turns in the original length below which a frequency is scaled"));
  keys.push_back(scaling_member("rope_high_frequency_factor", &RopeScaling::high_frequency_factor, positive,
                                "llama3: turns in the original length above which it is kept"));
  keys.push_back(scaling_member("rope_original_max_positions", &RopeScaling::original_max_positions, size,
                                "llama3: the original length, in tokens"));
  keys.push_back(
      model_member("tied_head", &A::tied_head, "", any, "the output head shares the embedding's weights"));
  keys.push_back(model_member("qkv_bias", &A::qkv_bias, "", any, "bias on the q, k and v projections"));
  keys.push_back(model_member("qk_norm", &A::qk_norm, "", any, "RMSNorm of every query and key head"));
}

void add_data(std::vector<Key>& keys) {
  using D = DataConfig;
  const auto data = [&]<class T>(const char* name, T D::*field, const char* unit, Range range,
                                 const char* description) {
    keys.push_back(member("data." + std::string(name), &Config::data, field, unit, range, description));
  };
  data("source", &D::source, "", any, "synthetic language, token file, or the bytes of a text file");
  data("file", &D::file, "", any, "tokens: raw little-endian integers; text: any file");
  data("token_type", &D::token_type, "", any, "tokens: type of the file's integers");
  data("row_stride", &D::row_stride, "tokens", not_negative,
       "tokens, text: from the start of a row to the next; 0: sequence_length");
  data("end_of_document", &D::end_of_document, "", at_least(-1),
       "token that ends a document in a row; -1: a row is one document");
  data("mean_document_length", &D::mean_document_length, "tokens", not_negative,
       "synthetic: mean tokens before an end of document, at least 1; 0: no documents");
  data("symbols", &D::symbols, "tokens", at_least(1), "synthetic: tokens in use, at most the vocabulary");
  data("branching", &D::branching, "tokens", between(1, 32), "synthetic: successors that a token may have");
  data("seed", &D::seed, "", not_negative, "synthetic: which language and which text");
}

void add_train(std::vector<Key>& keys) {
  using T_ = TrainConfig;
  const auto train = [&]<class T>(const char* name, T T_::*field, const char* unit, Range range,
                                  const char* description) {
    keys.push_back(member("train." + std::string(name), &Config::train, field, unit, range, description));
  };
  train("steps", &T_::steps, "steps", at_least(1), "timed optimizer steps");
  train("warmup_steps", &T_::warmup_steps, "steps", not_negative,
        "steps before the timed ones; they train as well");
  train("batch", &T_::batch, "sequences", between(1, most_sequences),
        "B: sequences of a micro-step over all ranks");
  train("sequence_length", &T_::sequence_length, "tokens", between(1, longest_sequence),
        "S: tokens of a sequence");
  train("accumulation", &T_::accumulation, "micro-steps", between(1, most_accumulation),
        "micro-steps whose gradients are summed for one optimizer step");
  train("precision", &T_::precision, "", any,
        "type of weights and activations; bf16 computes and keeps its master weights in fp32");
  train("gradient_precision", &T_::gradient_precision, "", any,
        "in what gradients of weights are kept and sent: as the model, or fp32");
  train("optimizer", &T_::optimizer, "", any, "plain gradient descent, or Adam with decoupled weight decay");
  train("learning_rate", &T_::learning_rate, "", not_negative, "largest learning rate");
  train("learning_rate_warmup", &T_::learning_rate_warmup, "steps", not_negative,
        "steps of linear growth from 0");
  train("learning_rate_decay", &T_::learning_rate_decay, "steps", not_negative,
        "steps of cosine decay after the growth; 0: constant");
  train("learning_rate_minimum", &T_::learning_rate_minimum, "", not_negative, "where the cosine ends");
  train("beta1", &T_::beta1, "", fraction, "adamw: decay of the mean gradient");
  train("beta2", &T_::beta2, "", fraction, "adamw: decay of the mean square");
  train("epsilon", &T_::epsilon, "", positive, "adamw: added to the root of the mean square");
  train("weight_decay", &T_::weight_decay, "", not_negative, "adamw: decoupled, on every parameter");
  train("recompute", &T_::recompute, "", any,
        "activations made anew in the backward pass: the attention core's, or a whole block's");
  train("dropout", &T_::dropout, "", fraction,
        "probability that an element of a block's attention or MLP output is dropped");
  train("clip", &T_::clip, "", not_negative, "largest 2-norm of the whole gradient; 0: any");
  train("seed", &T_::seed, "", not_negative, "random first weights");
  train("initial_standard_deviation", &T_::initial_standard_deviation, "", not_negative,
        "random first weights: of matrices and embeddings");
}

void add_run(std::vector<Key>& keys) {
  keys.push_back(member("parallel.system", &Config::parallel, &ParallelConfig::system, "", any,
                        "how the step is split over the ranks"));
  keys.push_back(member("parallel.sequence_degree", &Config::parallel, &ParallelConfig::sequence_degree,
                        "ranks", not_negative,
                        "K: ranks that share a sequence; 0: all under ulysses, N/B under basp"));
  keys.push_back(member("parallel.sharding", &Config::parallel, &ParallelConfig::sharding, "", any,
                        "what each rank holds a part of: ZeRO stages over all ranks, MiCS in groups"));
  keys.push_back(member("parallel.shard_ranks", &Config::parallel, &ParallelConfig::shard_ranks, "ranks",
                        not_negative, "mics: ranks of a shard group; 0: those that share a sequence"));
  keys.push_back(member("parallel.prefetch", &Config::parallel, &ParallelConfig::prefetch, "", any,
                        "zero3, mics: gather the next block's weights while this one computes"));
  keys.push_back(member("verify.enabled", &Config::verify, &VerifyConfig::enabled, "", any,
                        "check a small fp64 twin of the run against one rank before the timed steps"));
  using O = OutputConfig;
  keys.push_back(
      member("output.file", &Config::output, &O::file, "", any, "HDF5 file of results; empty: none"));
  keys.push_back(
      member("output.overwrite", &Config::output, &O::overwrite, "", any, "replace a file that exists"));
  keys.push_back(
      member("output.trace", &Config::output, &O::trace, "", any,
             "trace of the last step that chrome://tracing and Perfetto open (JSON); empty: none"));
  keys.push_back(member("output.execution_trace", &Config::output, &O::execution_trace, "", any,
                        "folder of Chakra execution traces of the last step, a file a rank; empty: none"));
  keys.push_back(member("output.activations", &Config::output, &O::activations, "", any,
                        "write those of the last step"));
  keys.push_back(
      member("output.logits", &Config::output, &O::logits, "", any, "write those of the last step"));
  keys.push_back(
      member("output.gradients", &Config::output, &O::gradients, "", any, "write those of the last step"));
  keys.push_back(
      member("output.weights", &Config::output, &O::weights, "", any, "write those after the last step"));
  using E = ExportConfig;
  keys.push_back(member("export.folder", &Config::export_to, &E::folder, "", any,
                        "Hugging Face folder to write the weights after the last step to; empty: none"));
  keys.push_back(member("export.overwrite", &Config::export_to, &E::overwrite, "", any,
                        "replace a model that is in the folder"));
  keys.push_back(member("export.type", &Config::export_to, &E::type, "", any,
                        "type of the numbers there; stored: as they are trained"));
  using C = CheckpointConfig;
  keys.push_back(member("checkpoint.folder", &Config::checkpoint, &C::folder, "", any,
                        "where the training's state is saved, made where it is missing; empty: nowhere"));
  keys.push_back(member("checkpoint.every", &Config::checkpoint, &C::every, "steps", not_negative,
                        "save after so many steps; 0: only at the end, on a signal and at the time limit"));
  keys.push_back(member("checkpoint.keep", &Config::checkpoint, &C::keep, "", at_least(1),
                        "newest checkpoints that stay in the folder"));
}

void add_inject(std::vector<Key>& keys) {
  using I = InjectConfig;
  const auto inject = [&]<class T>(const char* name, T I::*field, const char* unit, Range range,
                                   const char* description) {
    keys.push_back(member("inject." + std::string(name), &Config::inject, field, unit, range, description));
  };
  inject("slow_rank", &I::slow_rank, "", at_least(-1),
         "a rank that computes slowly on purpose (the result is then INVALID); -1: none");
  inject("slow_factor", &I::slow_factor, "", between(1, 1000),
         "its compute phases take so many times as long");
  inject("slow_seconds", &I::slow_seconds, "s", between(0, longest_delay),
         "each forward pass of an attention there takes so much longer");
  inject("link_rank", &I::link_rank, "", at_least(-1),
         "a rank behind a slow link on purpose (the result is then INVALID); -1: none");
  inject("link_seconds", &I::link_seconds, "s", between(0, longest_delay),
         "that the link adds to every collective that link_rank takes part in");
}

}  // namespace

const std::vector<Key>& schema() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> list;
    add_model(list);
    add_data(list);
    add_train(list);
    add_run(list);
    add_inject(list);
    return list;
  }();
  return keys;
}

const Key* find_key(const std::string& name) {
  const auto& keys = schema();
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const Key& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

const std::vector<std::string>& table_names() {
  static const std::vector<std::string> names{"model",  "data",   "train",      "parallel", "verify",
                                              "output", "export", "checkpoint", "inject"};
  return names;
}

}  // namespace minisp::config
