// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "util/error.hpp"

namespace minisp {

namespace {
std::string message(const std::string& what, const std::string& where, const std::string& remedy) {
  std::string text = where.empty() ? what : where + ": " + what;
  if (!remedy.empty()) text += ". " + remedy;
  return text;
}
}  // namespace

Error::Error(ExitCode code, std::string what, std::string where, std::string remedy)
    : std::runtime_error(message(what, where, remedy)),
      code_(code),
      problem_(std::move(what)),
      where_(std::move(where)),
      remedy_(std::move(remedy)) {}

}  // namespace minisp
