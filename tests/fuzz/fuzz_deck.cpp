// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Input: a deck, and behind each zero byte an override of the command line.
#include "config/deck.hpp"
#include "fuzz_support.hpp"

#include <algorithm>
#include <vector>

using minisp::config::Config;

namespace {

/// Model folders are another target's: a name that no folder has keeps this one off the disk.
void forbid_folders(std::string& text) {
  static const std::string key = "folder";
  for (auto at = text.find(key); at != std::string::npos; at = text.find(key, at)) text[at] = 'F';
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  forbid_folders(text);
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == '\0')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  const std::string deck = parts.front();
  parts.erase(parts.begin());
  Config config;
  if (!minisp::fuzz::accepts([&] { config = minisp::config::parse_config(deck, "fuzz.toml", parts); }))
    return 0;
  // A configuration written as a deck is the same configuration.
  const std::string written = minisp::config::effective_deck(config);
  Config again;
  minisp::fuzz::require(
      minisp::fuzz::accepts([&] { again = minisp::config::parse_config(written, "written.toml", {}); }),
      "the effective deck is a deck");
  minisp::fuzz::require(
      minisp::config::settings(again) == minisp::config::settings(config) && again.model == config.model,
      "the effective deck says the same");
  return 0;
}
