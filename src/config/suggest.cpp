// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/suggest.hpp"

#include <algorithm>

namespace minisp::config {

std::size_t edit_distance(const std::string& a, const std::string& b) {
  // Optimal string alignment: rows i - 2, i - 1 and i of the usual table.
  std::vector<std::size_t> two_back(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = previous[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], two_back[j - 2] + 1);
    }
    std::swap(two_back, previous);
    std::swap(previous, row);
  }
  return previous[b.size()];
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  std::string text = near.empty() ? "" : "Did you mean '" + near + "'? ";
  text += "Known: ";
  for (const std::string& candidate : candidates)
    text += (&candidate == &candidates.front() ? "" : ", ") + candidate;
  return text;
}

}  // namespace minisp::config
