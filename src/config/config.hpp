// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A run, as the deck and the command line describe it: typed, checked, nothing left to parse.
#pragma once

#include "config/architecture.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace minisp::config {

enum class System { single, data_parallel, ulysses, basp };
enum class Precision { fp64, fp32, bf16 };
/// In what gradients of weights are kept and sent: in what the model is stored in, or in fp32.
enum class GradientPrecision { model, fp32 };
enum class OptimizerKind { sgd, adamw };
/// Activations that a backward pass makes anew: none; the attention core's output; a block's all but its
/// input.
enum class Recompute { none, selective, full };
/// ZeRO stages over all ranks, or shards within a group and replicas across (MiCS, HSDP).
enum class Sharding { none, zero1, zero2, zero3, mics };
enum class DataSource { synthetic, tokens, text };
enum class TokenType { uint16, uint32 };
/// Type of exported weights: that of training, or another.
enum class ExportType { stored, float32, bfloat16 };

struct DataConfig {
  DataSource source = DataSource::synthetic;
  std::string file;                          ///< tokens, text
  TokenType token_type = TokenType::uint16;  ///< tokens
  std::int64_t end_of_document = -1;         ///< token that ends a document; -1: rows are one document
  std::int64_t row_stride = 0;               ///< tokens, text: from row to row; 0: sequence_length
  double mean_document_length = 0;           ///< synthetic: mean tokens before the end token, 0: no documents
  std::int64_t symbols = 256;                ///< synthetic: tokens in use (at most the vocabulary)
  std::int64_t branching = 4;                ///< synthetic: successors of a token
  std::uint64_t seed = 1;
};

struct TrainConfig {
  std::int64_t steps = 20;              ///< timed steps
  std::int64_t warmup_steps = 2;        ///< steps before the timed ones; they train as well
  std::int64_t batch = 2;               ///< B: sequences of one micro-step over all ranks
  std::int64_t sequence_length = 1024;  ///< S
  std::int64_t accumulation = 1;        ///< micro-steps an optimizer step
  Precision precision = Precision::fp32;
  GradientPrecision gradient_precision = GradientPrecision::model;
  OptimizerKind optimizer = OptimizerKind::adamw;
  double learning_rate = 3e-4;
  std::int64_t learning_rate_warmup = 0;  ///< steps of linear warm-up
  std::int64_t learning_rate_decay = 0;   ///< steps of cosine decay after it, 0: constant
  double learning_rate_minimum = 0;       ///< floor of the cosine
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  Recompute recompute = Recompute::none;
  double dropout = 0;      ///< of what each branch adds to the residual stream
  double clip = 1.0;       ///< global gradient norm, 0: off
  std::uint64_t seed = 1;  ///< initial weights
  double initial_standard_deviation = 0.02;
};

struct ParallelConfig {
  System system = System::single;
  std::int64_t sequence_degree = 0;  ///< K; 0: all ranks under ulysses, N/B under basp
  Sharding sharding = Sharding::none;
  std::int64_t shard_ranks = 0;  ///< mics: ranks of a shard group; 0: those of a sequence group (K)
  bool prefetch = true;          ///< zero3, mics: gather the next block while this one computes
};

struct VerifyConfig {
  bool enabled = true;  ///< the self-check before the timed steps
};

struct OutputConfig {
  std::string file;             ///< HDF5, empty: none
  bool overwrite = false;       ///< replace a file that exists
  std::string trace;            ///< Chrome trace of the last step, empty: none
  std::string execution_trace;  ///< folder of Chakra execution traces of the last step, empty: none
  bool activations = false, logits = false, gradients = false, weights = false;  ///< of the last step

  bool traces() const { return !trace.empty() || !execution_trace.empty(); }
};

struct ExportConfig {
  std::string folder;      ///< Hugging Face folder to write after the last step, empty: none
  bool overwrite = false;  ///< replace a model that is there
  ExportType type = ExportType::stored;
};

/// Delays put in on purpose, to see what they look like. Never a benchmark result.
struct InjectConfig {
  std::int64_t slow_rank = -1;  ///< computes slowly; -1: none
  double slow_factor = 1;       ///< its compute phases take so many times as long
  double slow_seconds = 0;      ///< and each forward pass of an attention so much longer
  std::int64_t link_rank = -1;  ///< sits at the end of a slow link; -1: none
  double link_seconds = 0;      ///< that the link adds to every collective that link_rank takes part in

  bool any() const { return slow_rank >= 0 || link_rank >= 0; }
};

struct CheckpointConfig {
  std::string folder;      ///< empty: none are written
  std::int64_t every = 0;  ///< steps; 0: after the last one, on a signal and at the time limit only
  std::int64_t keep = 2;   ///< newest ones that stay
};

struct Config {
  std::string deck_file;               ///< as given on the command line
  std::string deck_text;               ///< the whole deck, for provenance
  std::vector<std::string> overrides;  ///< "key=value" as given
  std::string model_folder;            ///< Hugging Face folder, empty: a preset
  bool random_weights = true;          ///< false: from model_folder's safetensors
  std::vector<std::string> notes;      ///< what the user should know, a sentence each
  Architecture model;
  DataConfig data;
  TrainConfig train;
  ParallelConfig parallel;
  VerifyConfig verify;
  OutputConfig output;
  ExportConfig export_to;
  InjectConfig inject;
  CheckpointConfig checkpoint;
};

const char* to_string(System system);
const char* to_string(Precision precision);
const char* to_string(GradientPrecision precision);
const char* to_string(OptimizerKind kind);
const char* to_string(Recompute recompute);
const char* to_string(Sharding sharding);
const char* to_string(DataSource source);
const char* to_string(TokenType type);
const char* to_string(ExportType type);

}  // namespace minisp::config
