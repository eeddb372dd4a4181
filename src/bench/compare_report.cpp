// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>

namespace minisp::bench {

namespace {

/// One that failed is worse than one that passed, then the larger error, and a NaN the worst.
bool worse(const TensorComparison& left, const TensorComparison& right) {
  if (left.passed() != right.passed()) return right.passed();
  const double l = left.relative_error, r = right.relative_error;
  return std::isnan(l) ? !std::isnan(r) : l > r;
}

std::string worst_element(const TensorComparison& tensor) {
  return fmt::format("[{}] {:.9g} against {:.9g}", fmt::join(tensor.worst, ", "), tensor.worst_a,
                     tensor.worst_b);
}

std::optional<double> ratio_of(const ComparisonReport& report) {
  if (!report.tokens_per_s_a || !report.tokens_per_s_b || *report.tokens_per_s_b == 0) return {};
  return *report.tokens_per_s_a / *report.tokens_per_s_b;
}

auto failed_tensors(const ComparisonReport& report) {
  return std::count_if(report.tensors.begin(), report.tensors.end(),
                       [](const auto& tensor) { return !tensor.passed(); });
}

/// One line a kind: how many, how many failed, and the worst of them.
void print_table(std::ostream& out, const ComparisonReport& report) {
  struct Line {
    std::size_t count = 0, failed = 0;
    const TensorComparison* worst = nullptr;
  };
  std::map<TensorKind, Line> lines;
  for (const auto& tensor : report.tensors) {
    auto& line = lines[tensor.kind];
    ++line.count;
    line.failed += tensor.passed() ? 0 : 1;
    if (!line.worst || worse(tensor, *line.worst)) line.worst = &tensor;
  }
  out << fmt::format("{:<14} {:>7} {:>6} {:>11} {:>9}  {}\n", "kind", "tensors", "failed", "worst error",
                     "tolerance", "worst tensor and its worst element");
  for (const auto& [kind, line] : lines)
    out << fmt::format("{:<14} {:>7} {:>6} {:>11.2e} {:>9.1e}  {} {}\n", to_string(kind), line.count,
                       line.failed, line.worst->relative_error, line.worst->tolerance, line.worst->name,
                       worst_element(*line.worst));
}

/// The worst failing tensors; a wrong weight near the input spoils all of them.
void print_failed(std::ostream& out, const ComparisonReport& report) {
  constexpr std::size_t shown = 20;
  std::vector<const TensorComparison*> failed;
  for (const auto& tensor : report.tensors)
    if (!tensor.passed()) failed.push_back(&tensor);
  std::stable_sort(failed.begin(), failed.end(), [](const auto* l, const auto* r) { return worse(*l, *r); });
  for (std::size_t i = 0; i < std::min(shown, failed.size()); ++i)
    out << fmt::format("FAILED {}: relative error {:.2e}, tolerance {:.1e}, worst element {}\n",
                       failed[i]->name, failed[i]->relative_error, failed[i]->tolerance,
                       worst_element(*failed[i]));
  if (failed.size() > shown)
    out << fmt::format("... and {} more (--json lists all)\n", failed.size() - shown);
}

}  // namespace

void print_report(std::ostream& out, const ComparisonReport& report) {
  out << fmt::format("a: {} ({})\nb: {} ({})\n\n", report.file_a, report.title_a, report.file_b,
                     report.title_b);
  if (!report.tensors.empty()) print_table(out, report);
  print_failed(out, report);
  for (const auto& failure : report.failures) out << "FAILED " << failure << '\n';
  for (const auto& note : report.notes) out << "note: " << note << '\n';
  out << '\n';
  if (report.tokens_per_s_a) out << fmt::format("a: {:.6g} tokens/s\n", *report.tokens_per_s_a);
  if (report.tokens_per_s_b) out << fmt::format("b: {:.6g} tokens/s\n", *report.tokens_per_s_b);
  if (const auto ratio = ratio_of(report)) out << fmt::format("ratio {:.2f} (tokens/s, a over b)\n", *ratio);
  if (report.valid())
    out << fmt::format("VALID: yes ({} tensors agree)\n", report.tensors.size());
  else
    out << fmt::format("VALID: no (INVALID: {} of {} tensors beyond their tolerance, {} other faults)\n",
                       failed_tensors(report), report.tensors.size(), report.failures.size());
}

void print_json(std::ostream& out, const ComparisonReport& report) {
  using nlohmann::json;
  const auto number = [](const std::optional<double>& value) { return value ? json(*value) : json(nullptr); };
  json tensors = json::array();
  for (const auto& tensor : report.tensors)
    tensors.push_back({{"name", tensor.name},
                       {"kind", to_string(tensor.kind)},
                       {"shape", tensor.shape},
                       {"relative_error", tensor.relative_error},  // NaN and infinity become null
                       {"tolerance", tensor.tolerance},
                       {"passed", tensor.passed()},
                       {"worst_index", tensor.worst},
                       {"worst_a", tensor.worst_a},
                       {"worst_b", tensor.worst_b}});
  const json document = {{"a", report.file_a},
                         {"b", report.file_b},
                         {"precision", report.precision},
                         {"valid", report.valid()},
                         {"failures", report.failures},
                         {"notes", report.notes},
                         {"tokens_per_s_a", number(report.tokens_per_s_a)},
                         {"tokens_per_s_b", number(report.tokens_per_s_b)},
                         {"ratio", number(ratio_of(report))},
                         {"tensors", tensors}};
  out << document.dump(2) << '\n';
}

ExitCode compare_command(const std::string& a, const std::string& b, const CompareOptions& options,
                         std::ostream& out) {
  const auto report = compare_files(a, b, options);
  if (options.json)
    print_json(out, report);
  else
    print_report(out, report);
  return report.exit_code();
}

}  // namespace minisp::bench
