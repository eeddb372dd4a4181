// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/compare.hpp"

#include "bench/result_contents.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace minisp::bench {

namespace {

/// Index of element `flat` of a piece in the whole array.
io::Shape index_of(const io::Slab& piece, std::int64_t flat) {
  io::Shape index = piece.start;
  for (std::size_t axis = index.size(); axis-- > 0; flat /= piece.count[axis])
    index[axis] += flat % piece.count[axis];
  return index;
}

/// Differences of two arrays, fed piece by piece.
class Difference {
 public:
  void add(const io::Slab& piece, const std::vector<double>& a, const std::vector<double>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double difference = std::abs(a[i] - b[i]);
      difference2_ += difference * difference;
      norm2_ += b[i] * b[i];
      // Written so that the first NaN wins and stays.
      if (difference <= largest_ || std::isnan(largest_)) continue;
      largest_ = difference;
      result_.worst = index_of(piece, static_cast<std::int64_t>(i));
      result_.worst_a = a[i];
      result_.worst_b = b[i];
    }
  }
  TensorComparison result() const {
    auto result = result_;
    result.relative_error = difference2_ == 0 ? 0 : std::sqrt(difference2_) / std::sqrt(norm2_);
    return result;
  }

 private:
  TensorComparison result_;
  double difference2_ = 0, norm2_ = 0, largest_ = -1;
};

TensorComparison compare_tensor(const std::string& name, const ResultContents& a, const ResultContents& b,
                                std::int64_t piece_elements) {
  const auto& tensor_a = a.tensors.at(name);
  const auto& tensor_b = b.tensors.at(name);
  Difference difference;
  const auto& shape = tensor_a.shape;
  for (const auto& piece : io::pieces_of({io::Shape(shape.size(), 0), shape}, piece_elements))
    difference.add(piece, tensor_a.read(a.file.get(), piece), tensor_b.read(b.file.get(), piece));
  auto result = difference.result();
  result.name = name;
  result.kind = tensor_a.kind;
  result.shape = shape;
  return result;
}

/// What a file either stores whole or not at all, so that a single missing tensor is a fault.
std::string group_of(const std::string& name) {
  static const std::string hidden = "activations/hidden_states";
  if (name.rfind(hidden + "/", 0) == 0) return hidden;
  return name.substr(0, name.find('/'));
}

std::set<std::string> groups_of(const ResultContents& contents) {
  std::set<std::string> groups;
  for (const auto& [name, tensor] : contents.tensors) groups.insert(group_of(name));
  return groups;
}

std::string text_of(const io::Shape& shape) {
  std::string text;
  for (const auto extent : shape) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text.empty() ? "scalar" : text;
}

/// Notes groups that `other` lacks, and names tensors that it lacks of a group that it has. A reference lists
/// more modules than a run stores, so there a missing activation is no fault.
void find_missing(const ResultContents& here, const ResultContents& other, ComparisonReport& report) {
  const auto groups = groups_of(other);
  std::set<std::string> noted;
  for (const auto& [name, tensor] : here.tensors) {
    if (other.tensors.count(name)) continue;
    const auto group = group_of(name);
    if (!groups.count(group)) {
      if (noted.insert(group).second) report.notes.push_back("only " + here.path + " holds " + group);
    } else if (here.is_reference && group == "activations") {
      continue;
    } else {
      report.failures.push_back(name + " is missing in " + other.path);
    }
  }
}

void note_settings(const ResultContents& a, const ResultContents& b, ComparisonReport& report) {
  if (a.is_reference || b.is_reference) return;
  std::set<std::string> keys;
  for (const auto& [key, value] : a.settings) keys.insert(key);
  for (const auto& [key, value] : b.settings) keys.insert(key);
  const auto value_in = [](const ResultContents& contents, const std::string& key) {
    const auto found = contents.settings.find(key);
    return found == contents.settings.end() ? std::string("(not set)") : found->second;
  };
  for (const auto& key : keys)
    if (value_in(a, key) != value_in(b, key) && key != "output.file")
      report.notes.push_back("setting " + key + ": " + value_in(a, key) + " against " + value_in(b, key));
}

/// Optimizer steps between the initial weights and a tensor of a run of `steps` steps.
std::int64_t steps_behind(TensorKind kind, std::int64_t steps) {
  const bool after_the_last = kind == TensorKind::weight || kind == TensorKind::key_bias;
  return std::max<std::int64_t>(0, after_the_last ? steps : steps - 1);
}

}  // namespace

const char* to_string(TensorKind kind) {
  switch (kind) {
    case TensorKind::loss:
      return "loss";
    case TensorKind::gradient_norm:
      return "gradient norm";
    case TensorKind::logits:
      return "logits";
    case TensorKind::activation:
      return "activation";
    case TensorKind::gradient:
      return "gradient";
    case TensorKind::weight:
      return "weight";
    case TensorKind::key_bias:
      return "key bias";
  }
  return "?";
}

// Two decompositions sum the same terms in another order. A sum of k terms of unit round-off u errs by about
// sqrt(k) u of its size, a chain of layers adds such errors up; with k up to 10^5 and tens of layers that is
// 10^3 to 10^4 u at most, and u is 1.1e-16 in fp64 and 6e-8 in fp32. In relative 2-norm over a tensor, where
// single elements near zero do not count, 1e-12 and 1e-5 leave a correct run room and let no wrong one
// through: a lost term or a swapped head shows at 1e-3 and above.
//
// Optimizer steps: SGD adds the gradient's error times the learning rate, which five steps do not lift above
// the base; beyond them it is let grow linearly. AdamW divides each gradient element by its own size, so the
// error of an update is the rounding error relative to the *element*, not to the tensor: of n elements the
// smallest is about n times below the typical one, which lifts the 2-norm by about sqrt(n), 10^2 to 10^3 for
// the tensors here, times learning rate over weight, some 10^-2. One order of magnitude a few steps.
//
// The key part of a query-key-value bias adds the same to all scores of a query where positions are learned
// (GPT-2), and nearly so with rotary positions at low frequencies: its gradient is rounding noise about an
// exact zero. In fp32 AdamW turns noise of 1e-9 beside epsilon = 1e-8 into steps of a tenth of the learning
// rate; in fp64 noise of 1e-18 becomes 1e-12 beside weights of 1e-2.
double default_tolerance(TensorKind kind, const std::string& precision, const std::string& optimizer,
                         std::int64_t steps) {
  const double base = precision == "fp64" ? 1e-12 : 1e-5;
  if (steps == 0) return base;
  const double growth = std::max(1.0, static_cast<double>(steps) / 5);
  if (optimizer != "adamw") return base * growth;
  if (kind == TensorKind::key_bias) return precision == "fp64" ? 1e-10 : 0.1;
  return 10 * base * growth;
}

TensorComparison compare_values(const std::string& name, TensorKind kind, const io::Shape& shape,
                                const std::vector<double>& a, const std::vector<double>& b,
                                double tolerance) {
  Difference difference;
  difference.add({io::Shape(shape.size(), 0), shape}, a, b);
  auto result = difference.result();
  result.name = name;
  result.kind = kind;
  result.shape = shape;
  result.tolerance = tolerance;
  return result;
}

bool ComparisonReport::valid() const {
  return failures.empty() && !tensors.empty() &&
         std::all_of(tensors.begin(), tensors.end(), [](const auto& tensor) { return tensor.passed(); });
}

ComparisonReport compare_files(const std::string& path_a, const std::string& path_b,
                               const CompareOptions& options) {
  auto a = open_contents(path_a);
  auto b = open_contents(path_b);
  if (a.is_reference && b.is_reference)
    throw input_error("and " + path_b + " are references both", path_a, "One of the two has to be a result");
  if (a.is_reference) add_reference_tensors(a, b);
  if (b.is_reference) add_reference_tensors(b, a);

  ComparisonReport report;
  report.file_a = path_a;
  report.file_b = path_b;
  report.title_a = a.title;
  report.title_b = b.title;
  report.precision = a.precision == b.precision ? a.precision : "fp32";
  report.tokens_per_s_a = a.tokens_per_s;
  report.tokens_per_s_b = b.tokens_per_s;
  for (const auto* file : {&a, &b})
    if (file->invalid)
      report.failures.push_back(file->path + " is INVALID by its own verdict: " + *file->invalid);
  note_settings(a, b, report);
  find_missing(a, b, report);
  find_missing(b, a, report);

  const std::string optimizer = a.is_reference ? b.optimizer : a.optimizer;
  for (const auto& [name, tensor] : a.tensors) {
    const auto other = b.tensors.find(name);
    if (other == b.tensors.end()) continue;
    if (tensor.shape != other->second.shape) {
      report.failures.push_back(name + " has shape " + text_of(tensor.shape) + " against " +
                                text_of(other->second.shape));
      continue;
    }
    auto comparison = compare_tensor(name, a, b, static_cast<std::int64_t>(options.piece_elements));
    const auto steps = steps_behind(tensor.kind, a.is_reference ? b.steps : a.steps);
    comparison.tolerance =
        options.tolerance.value_or(default_tolerance(tensor.kind, report.precision, optimizer, steps));
    report.tensors.push_back(std::move(comparison));
  }
  if (report.tensors.empty())
    report.failures.push_back("the files have nothing in common that could be compared");
  return report;
}

}  // namespace minisp::bench
