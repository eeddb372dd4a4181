// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/cross_check.hpp"

#include "config/architecture_fault.hpp"
#include "config/hugging_face_writer.hpp"
#include "util/error.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace minisp::config {

namespace {

using Where = std::function<std::string(const std::string& key)>;

void check_weights(const Config& config, const Architecture& base, const Where& where) {
  if (config.random_weights) return;
  if (config.model_folder.empty())
    throw input_error("weights are to come from a folder, but none is named", where("model.weights"),
                      "Set model.folder to a Hugging Face folder, or model.weights = \"random\"");
  const Architecture& a = config.model;
  const std::vector<std::pair<const char*, bool>> kept{{"hidden", a.hidden == base.hidden},
                                                       {"intermediate", a.intermediate == base.intermediate},
                                                       {"layers", a.layers == base.layers},
                                                       {"heads", a.heads == base.heads},
                                                       {"kv_heads", a.kv_heads == base.kv_heads},
                                                       {"head_dim", a.head_dim == base.head_dim},
                                                       {"vocabulary", a.vocabulary == base.vocabulary},
                                                       {"tied_head", a.tied_head == base.tied_head},
                                                       {"qkv_bias", a.qkv_bias == base.qkv_bias},
                                                       {"qk_norm", a.qk_norm == base.qk_norm}};
  std::string changed;
  for (const auto& [key, same] : kept)
    if (!same) changed = changed.empty() ? key : changed;
  if (changed.empty() && a.positions == Positions::learned && a.max_positions != base.max_positions)
    changed = "max_positions";
  if (!changed.empty())
    throw input_error("the weights come from " + config.model_folder + ", whose config.json says otherwise",
                      where("model." + changed), "Leave the key out, or set model.weights = \"random\"");
}

void check_data(const Config& config, const Where& where) {
  const DataConfig& data = config.data;
  const std::int64_t vocabulary = config.model.vocabulary;
  if (data.end_of_document >= vocabulary)
    throw input_error(
        "token " + std::to_string(data.end_of_document) + " is outside the vocabulary of " +
            std::to_string(vocabulary),
        where("data.end_of_document"),
        "Give a token from 0 to " + std::to_string(vocabulary - 1) + ", or -1 for no documents");
  if (data.source != DataSource::synthetic) {
    if (data.file.empty())
      throw input_error("no file is named, but data.source is '" + std::string(to_string(data.source)) + "'",
                        where("data.file"), "Set data.file, or data.source = \"synthetic\"");
    if (data.source == DataSource::text && vocabulary < 256)
      throw input_error("bytes are tokens from 0 to 255, but the vocabulary is " + std::to_string(vocabulary),
                        where("model.vocabulary"), "Set model.vocabulary to 256 or more");
    return;
  }
  if (data.mean_document_length > 0 && data.mean_document_length < 1)
    throw input_error("a document holds one token at least", where("data.mean_document_length"),
                      "Give a number of at least 1, or 0 for no documents");
  if (data.mean_document_length > 0 && data.end_of_document < 0)
    throw input_error("no token ends a document", where("data.end_of_document"),
                      "Set data.end_of_document, for instance to 0, or data.mean_document_length = 0");
  if (data.mean_document_length == 0 && data.end_of_document >= 0)
    throw input_error("the synthetic language has no documents", where("data.mean_document_length"),
                      "Set data.mean_document_length, for instance to 256, or data.end_of_document = -1");
  const std::int64_t symbols = std::min(data.symbols, vocabulary - (data.end_of_document >= 0 ? 1 : 0));
  if (data.branching > symbols)
    throw input_error("a token is to have " + std::to_string(data.branching) + " successors, but only " +
                          std::to_string(symbols) + " tokens are in use",
                      where("data.branching"),
                      "Lower data.branching or raise data.symbols (and model.vocabulary)");
}

void check_train(Config& config, const Where& where) {
  const TrainConfig& train = config.train;
  if (train.precision == Precision::fp64 && train.gradient_precision == GradientPrecision::fp32)
    throw input_error("gradients of a model in fp64 are not rounded to fp32",
                      where("train.gradient_precision"),
                      "Leave it out, or set train.precision to \"fp32\" or \"bf16\"");
  if (train.learning_rate_minimum > train.learning_rate)
    throw input_error("the schedule would end above its largest learning rate",
                      where("train.learning_rate_minimum"), "Set it to at most train.learning_rate");
  if (train.sequence_length > config.model.max_positions) {
    if (config.model.positions == Positions::learned)
      throw input_error(
          "sequences of " + std::to_string(train.sequence_length) + " tokens, but the model has only " +
              std::to_string(config.model.max_positions) + " learned positions",
          where("train.sequence_length"), "Lower it, or raise model.max_positions (with random weights)");
    config.notes.push_back("sequences of " + std::to_string(train.sequence_length) +
                           " tokens are longer than the model's max_positions, " +
                           std::to_string(config.model.max_positions) + ".");
  }
}

void check_run(const Config& config, const Where& where) {
  const ParallelConfig& parallel = config.parallel;
  if (parallel.sequence_degree > 1 &&
      (parallel.system == System::single || parallel.system == System::data_parallel))
    throw input_error(std::string(to_string(parallel.system)) + " does not split sequences, but K is " +
                          std::to_string(parallel.sequence_degree),
                      where("parallel.sequence_degree"),
                      "Leave it out, or set parallel.system to \"ulysses\" or \"basp\"");
  const OutputConfig& output = config.output;
  if (output.file.empty()) {
    const std::vector<std::pair<const char*, bool>> wanted{{"output.activations", output.activations},
                                                           {"output.logits", output.logits},
                                                           {"output.gradients", output.gradients},
                                                           {"output.weights", output.weights}};
    for (const auto& [key, on] : wanted)
      if (on)
        throw input_error("there is no file to write to", where(key),
                          "Set output.file, for instance to a.h5");
  }
  if (!config.export_to.folder.empty() && !exported_family(config.model))
    throw input_error("no class of Transformers has both biases on q, k and v and norms of their heads",
                      where("export.folder"), "Switch model.qkv_bias or model.qk_norm off, or leave it out");
  if (config.checkpoint.every > 0 && config.checkpoint.folder.empty())
    throw input_error("there is no folder to write to", where("checkpoint.every"),
                      "Set checkpoint.folder, for instance to checkpoints");
}

void check_inject(const InjectConfig& inject, const Where& where) {
  const bool slow = inject.slow_factor > 1 || inject.slow_seconds > 0;
  if (slow && inject.slow_rank < 0)
    throw input_error("a rank is to be slow, but none is named", where("inject.slow_rank"),
                      "Name one, for instance 0, or leave out inject.slow_factor and inject.slow_seconds");
  if (!slow && inject.slow_rank >= 0)
    throw input_error("nothing makes rank " + std::to_string(inject.slow_rank) + " slow",
                      where("inject.slow_rank"),
                      "Set inject.slow_factor or inject.slow_seconds too, or leave it out");
  if ((inject.link_seconds > 0) != (inject.link_rank >= 0))
    throw input_error("a slow link needs a rank and a delay", where("inject.link_rank"),
                      "Set both inject.link_rank and inject.link_seconds, or neither");
}

}  // namespace

void cross_check(Config& config, const Architecture& base, const Where& where) {
  if (const auto fault = find_fault(config.model))
    throw input_error(fault->what, where("model." + fault->field), fault->remedy);
  check_weights(config, base, where);
  check_data(config, where);
  check_train(config, where);
  check_run(config, where);
  check_inject(config.inject, where);
}

}  // namespace minisp::config
