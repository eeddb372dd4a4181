// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// "Did you mean": the nearest of some known words.
#pragma once

#include <string>
#include <vector>

namespace minisp::config {

/// Edits (insert, delete, replace, swap of neighbours) that turn one word into the other.
std::size_t edit_distance(const std::string& a, const std::string& b);

/// The nearest candidate, or empty where none is near (more than a third of the word would change).
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

/// "Did you mean 'x'? " or empty, followed by "Known: a, b, c".
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace minisp::config
