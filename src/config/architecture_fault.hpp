// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// What check() of an architecture finds, with the field apart, so that a deck can name the line that set it.
#pragma once

#include "config/architecture.hpp"

#include <optional>
#include <string>

namespace minisp::config {

struct ArchitectureFault {
  std::string field;  ///< key of the deck's [model] table
  std::string what;
  std::string remedy;
};

/// The first fault, see check().
std::optional<ArchitectureFault> find_fault(const Architecture& architecture);

}  // namespace minisp::config
