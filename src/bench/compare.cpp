// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/compare.hpp"

#include "bench/result_contents.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
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

/// A loss or norm of every step. Each is judged by the steps that lie behind it, and the one that comes
/// nearest to its tolerance, or exceeds it most, stands for all.
TensorComparison compare_series(const std::string& name, const ResultContents& a, const ResultContents& b,
                                const std::function<double(std::int64_t)>& tolerance_after) {
  const auto& tensor = a.tensors.at(name);
  const io::Slab whole{{0}, tensor.shape};
  const auto values_a = tensor.read(a.file.get(), whole);
  const auto values_b = b.tensors.at(name).read(b.file.get(), whole);
  TensorComparison result;
  double worst = -1;
  for (std::size_t i = 0; i < values_a.size(); ++i) {
    const auto step = a.first_step + static_cast<std::int64_t>(i);
    auto here = compare_values(name, tensor.kind, {1}, {values_a[i]}, {values_b[i]}, tolerance_after(step));
    here.worst = {step};
    const double share = here.relative_error == 0 ? 0 : here.relative_error / here.tolerance;
    if (share <= worst || std::isnan(worst)) continue;
    worst = share;
    result = here;
  }
  result.shape = tensor.shape;
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

void note_unjudged(ComparisonReport& report) {
  const auto unjudged = std::count_if(report.tensors.begin(), report.tensors.end(), [](const auto& tensor) {
    return std::isinf(tensor.tolerance) && tensor.relative_error > 0;
  });
  if (unjudged == 0) return;
  if (report.precision == "bf16")
    report.failures.push_back(
        std::to_string(unjudged) +
        " tensors differ and were not judged: what rounding explains in bf16 depends on the "
        "model. Judge the deck with minisp verify, or give a tolerance");
  else
    report.notes.push_back(
        std::to_string(unjudged) +
        " tensors were not judged: rounding alone can change them at will after so many steps "
        "of AdamW. Compare runs of fewer steps, with SGD, or in fp64, or give a tolerance");
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
// the base; beyond them it is let grow linearly (measured: no growth in 80 steps of the tiny deck).
//
// AdamW divides each gradient element by its own size, so the error of an update is the rounding error
// relative to the *element*, not to the tensor. Of n elements the smallest is about n times below the typical
// one, which lifts the 2-norm by about sqrt(n), 10^2 to 10^3 for the tensors here: 3 10^4 u. Losses, norms
// and logits average over elements and keep nearer to the base. And the trajectory is chaotic: two correct
// runs of the tiny deck (learning rate 10^-2) drift apart by e^0.17 a step, in both precisions. Hence the
// factor e^(1/5) a step beyond the fifth; where nothing below 0.3 is left to ask for, nothing is asked.
//
// The key part of a query-key-value bias adds the same to all scores of a query where positions are learned
// (GPT-2), and nearly so with rotary positions at low frequencies: its gradient is rounding noise about an
// exact zero. In fp32 AdamW turns noise of 1e-9 beside epsilon = 1e-8 into steps of a tenth of the learning
// rate; in fp64 noise of 1e-18 becomes 1e-12 beside weights of 1e-2.
//
// Errors of bf16 have no size of their own; `minisp verify` measures what to hold them against, two files
// cannot.
double default_tolerance(TensorKind kind, const std::string& precision, const std::string& optimizer,
                         std::int64_t steps) {
  if (precision == "bf16") return std::numeric_limits<double>::infinity();
  const bool fp64 = precision == "fp64";
  const double base = fp64 ? 1e-12 : 1e-5;
  if (steps == 0) return base;
  if (optimizer != "adamw") return base * std::max(1.0, static_cast<double>(steps) / 5);
  double tolerance =
      3e4 * (fp64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon()) / 2;
  if (kind == TensorKind::loss) tolerance = base;
  if (kind == TensorKind::gradient_norm || kind == TensorKind::logits)
    tolerance = std::min(tolerance, 10 * base);
  if (kind == TensorKind::key_bias) tolerance = fp64 ? 1e-10 : 0.1;
  tolerance *= std::exp(std::max(0.0, static_cast<double>(steps - 5) / 5));
  return tolerance < 0.3 ? tolerance : std::numeric_limits<double>::infinity();
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
  if (!a.is_reference && !b.is_reference && a.first_step != b.first_step) {
    const auto first = std::max(a.first_step, b.first_step);
    report.notes.push_back("losses and norms from step " + std::to_string(first) +
                           " on, where the restarted run begins");
    drop_steps_before(a, first);
    drop_steps_before(b, first);
  }
  report.file_a = path_a;
  report.file_b = path_b;
  report.title_a = a.title;
  report.title_b = b.title;
  for (const char* precision : {"fp64", "fp32", "bf16"})  // the less precise of the two
    if (a.precision == precision || b.precision == precision) report.precision = precision;
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
    const auto tolerance_after = [&](std::int64_t steps) {
      return options.tolerance.value_or(default_tolerance(tensor.kind, report.precision, optimizer, steps));
    };
    if (tensor.kind == TensorKind::loss || tensor.kind == TensorKind::gradient_norm) {
      report.tensors.push_back(compare_series(name, a, b, tolerance_after));
    } else {
      report.tensors.push_back(compare_tensor(name, a, b, static_cast<std::int64_t>(options.piece_elements)));
      report.tensors.back().tolerance =
          tolerance_after(steps_behind(tensor.kind, a.is_reference ? b.steps : a.steps));
    }
  }
  note_unjudged(report);
  if (report.tensors.empty())
    report.failures.push_back("the files have nothing in common that could be compared");
  return report;
}

}  // namespace minisp::bench
