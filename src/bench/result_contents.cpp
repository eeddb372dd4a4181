// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/result_contents.hpp"

#include "io/result.hpp"

#include <string_view>

namespace minisp::bench {

namespace {

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

TensorKind weight_kind(const std::string& name) {
  return ends_with(name, "c_attn.bias") || ends_with(name, "k_proj.bias") ? TensorKind::key_bias
                                                                          : TensorKind::weight;
}

void add_dataset(ResultContents& contents, const std::string& name, TensorKind kind,
                 const std::string& dataset) {
  const auto shape = io::shape_of(io::open_dataset(contents.file.get(), dataset).get());
  contents.tensors[name] = {kind, shape, dataset, {}};
}

/// All datasets below `group`, under `name` in its place.
void add_group(ResultContents& contents, const std::string& group, const std::string& name, TensorKind kind) {
  for (const auto& tensor : io::list_datasets(contents.file.get(), group)) {
    const auto kind_here = kind == TensorKind::weight ? weight_kind(tensor) : kind;
    add_dataset(contents, name + "/" + tensor, kind_here, group + "/" + tensor);
  }
}

void add_values(ResultContents& contents, const std::string& name, TensorKind kind,
                std::vector<double> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  contents.tensors[name] = {kind, {count}, "", std::move(values)};
}

void read_result(ResultContents& contents) {
  const hid_t file = contents.file.get();
  const auto version = io::read_attribute<std::int64_t>(file, "format_version");
  if (version != io::result_format_version)
    throw input_error("has format version " + std::to_string(version) + ", this program reads version " +
                          std::to_string(io::result_format_version),
                      contents.path, "Compare with the version of miniSP that wrote it");
  contents.precision = io::read_attribute<std::string>(file, "precision");
  contents.optimizer = io::read_attribute<std::string>(file, "optimizer");
  add_dataset(contents, "metrics/loss", TensorKind::loss, "/metrics/loss");
  add_dataset(contents, "metrics/grad_norm", TensorKind::gradient_norm, "/metrics/grad_norm");
  const auto steps = io::read_integers(file, "/metrics/step");
  contents.first_step = steps.empty() ? 0 : steps.front();
  contents.steps = contents.first_step + io::elements_of(contents.tensors["metrics/loss"].shape);
  if (io::exists(file, "/logits")) add_dataset(contents, "logits", TensorKind::logits, "/logits");
  add_group(contents, "/activations", "activations", TensorKind::activation);
  add_group(contents, "/gradients", "gradients", TensorKind::gradient);
  add_group(contents, "/weights", "weights", TensorKind::weight);

  const auto provenance = io::open_group(file, "/provenance");
  const auto ranks = io::read_attribute<std::int64_t>(provenance.get(), "ranks");
  contents.title = io::read_attribute<std::string>(file, "decomposition") + ", " + std::to_string(ranks) +
                   (ranks == 1 ? " rank, " : " ranks, ") + contents.precision;
  const auto figure = io::open_group(file, "/figure_of_merit");
  contents.tokens_per_s = io::read_attribute<double>(figure.get(), "tokens_per_s");
  if (!io::read_attribute<bool>(io::open_group(file, "/verdict").get(), "valid")) {
    const auto reasons = io::read_texts(file, "/verdict/reasons");
    contents.invalid = reasons.empty() ? "no reason given" : reasons.front();
  }
  const auto settings = io::open_group(file, "/input/settings");
  for (const auto& key : io::list_attributes(settings.get()))
    contents.settings[key] = io::read_attribute<std::string>(settings.get(), key);
}

}  // namespace

std::vector<double> ComparableTensor::read(hid_t file, const io::Slab& slab) const {
  if (!dataset.empty()) return io::read_doubles(io::open_dataset(file, dataset).get(), slab);
  const auto begin = values.begin() + slab.start[0];
  return {begin, begin + slab.count[0]};
}

ResultContents open_contents(const std::string& path) {
  ResultContents contents;
  contents.path = path;
  contents.file = io::open_for_reading(path);
  const hid_t file = contents.file.get();
  if (io::has_attribute(file, "format") &&
      io::read_attribute<std::string>(file, "format") == io::result_format_name) {
    read_result(contents);
  } else if (io::has_attribute(file, "loss") && io::has_attribute(file, "gradient_norm")) {
    contents.is_reference = true;
    contents.title = "reference";
  } else {
    throw input_error("is neither a result of miniSP nor a reference", path,
                      "Give a file that `minisp run` wrote, or a reference.h5");
  }
  return contents;
}

void drop_steps_before(ResultContents& contents, std::int64_t first_step) {
  if (first_step <= contents.first_step) return;
  for (const char* name : {"metrics/loss", "metrics/grad_norm"}) {
    const auto& tensor = contents.tensors.at(name);
    auto values = tensor.read(contents.file.get(), {{0}, tensor.shape});
    const auto dropped = std::min(first_step - contents.first_step, static_cast<std::int64_t>(values.size()));
    values.erase(values.begin(), values.begin() + dropped);
    add_values(contents, name, tensor.kind, std::move(values));
  }
  contents.first_step = first_step;
}

void add_reference_tensors(ResultContents& reference, const ResultContents& run) {
  const hid_t file = reference.file.get();
  if (run.steps == 1) {
    add_values(reference, "metrics/loss", TensorKind::loss, {io::read_attribute<double>(file, "loss")});
    add_values(reference, "metrics/grad_norm", TensorKind::gradient_norm,
               {io::read_attribute<double>(file, "gradient_norm")});
    if (io::exists(file, "/logits")) add_dataset(reference, "logits", TensorKind::logits, "/logits");
    add_group(reference, "/hidden_states", "activations/hidden_states", TensorKind::activation);
    add_group(reference, "/activations", "activations", TensorKind::activation);
    add_group(reference, "/gradients", "gradients", TensorKind::gradient);
  }
  const auto after = "/after_" + std::to_string(run.steps) + "_" + run.optimizer + "_steps";
  if (io::exists(file, after)) {
    const auto group = io::open_group(file, after);
    add_values(reference, "metrics/loss", TensorKind::loss,
               io::read_attribute<std::vector<double>>(group.get(), "losses"));
    add_values(reference, "metrics/grad_norm", TensorKind::gradient_norm,
               io::read_attribute<std::vector<double>>(group.get(), "gradient_norms"));
    add_group(reference, after, "weights", TensorKind::weight);
  }
}

}  // namespace minisp::bench
