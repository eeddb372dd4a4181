// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A small result with something in every part of it.
#pragma once

#include "io/result.hpp"

#include <map>
#include <string>
#include <vector>

namespace minisp::test {

struct SampleTensor {
  io::Shape shape;
  std::vector<double> values;
};

struct Sample {
  io::RunResult result;
  std::map<std::string, SampleTensor> tensors;  ///< global arrays by path
};

/// A run of `steps` steps on two ranks in fp64.
inline Sample make_sample(std::size_t steps = 2) {
  Sample sample;
  auto& r = sample.result;
  r.precision = "fp64";
  r.decomposition = "basp";
  r.optimizer = "sgd";
  r.provenance = io::gather_provenance(MPI_COMM_WORLD, {"minisp", "run", "a deck.toml"});
  r.input = {"a deck.toml",
             "[model]\nlayers = 2\n",
             {"train.steps=2"},
             {{"train.steps", "2"}, {"model.layers", "2"}}};
  for (std::size_t i = 0; i < steps; ++i) {
    r.metrics.step.push_back(static_cast<Index>(i));
    r.metrics.loss.push_back(4.5 - 0.25 * static_cast<double>(i));
    r.metrics.grad_norm.push_back(1.5);
    r.metrics.seconds.push_back(0.125);
    r.metrics.tokens_per_s.push_back(800);
    r.metrics.learning_rate.push_back(0.1);
  }
  r.metrics.entropy_rate = 1.25;
  r.phases = {{"attention", {1.0, 3.0}}, {"all_to_all/forward", {0.5, 0.25}}};
  r.traffic = {{"all_to_all",
                "attention",
                {8, 8},
                {100, 50},
                {0, 50},
                {100, 100},
                {0.1, 0.2},
                {0, 0.01},
                {0.06, 0.04},
                {0.04, 0.15}}};
  r.arrivals = {{0, 5}, {0, 1e-6}, {0, 2e-6}, {0.09, 0.01}};
  r.memory = {{1000, 1000}, {990, 1010}};
  r.figure_of_merit = {800, 1e9, 4e9, 0.25, 0.125};
  r.verdict = {true, {}, {{"gradients of the twin", 1e-14, 1e-12, true}}};
  sample.tensors["/gradients/embed.weight"] = {{3, 2}, {1, 2, 3, 4, 5, 6}};
  sample.tensors["/gradients/norm.weight"] = {{2}, {0, 0}};
  sample.tensors["/weights/embed.weight"] = {{3, 2}, {-1, 2, -3, 4, -5, 6}};
  sample.tensors["/activations/hidden_states/0"] = {{1, 2, 2}, {1, 2, 3, 4}};
  sample.tensors["/logits"] = {{1, 2, 3}, {1, 2, 3, 4, 5, 6}};
  return sample;
}

/// Written by one rank alone.
inline void write_sample(const Sample& sample, const std::string& path) {
  io::OutputFile file(MPI_COMM_SELF, path, true);
  for (const auto& [name, tensor] : sample.tensors)
    file.write_global(name, tensor.shape, {{io::Shape(tensor.shape.size(), 0), tensor.shape}},
                      tensor.values.data(), "1", "of a test");
  io::write_result(file, sample.result);
  file.commit();
}

}  // namespace minisp::test
