// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "config/config.hpp"

#include "config/enum_names.hpp"

namespace minisp::config {

const char* to_string(System system) {
  return name_of(system);
}
const char* to_string(Precision precision) {
  return name_of(precision);
}
const char* to_string(GradientPrecision precision) {
  return name_of(precision);
}
const char* to_string(OptimizerKind kind) {
  return name_of(kind);
}
const char* to_string(Recompute recompute) {
  return name_of(recompute);
}
const char* to_string(Sharding sharding) {
  return name_of(sharding);
}
const char* to_string(DataSource source) {
  return name_of(source);
}
const char* to_string(TokenType type) {
  return name_of(type);
}
const char* to_string(ExportType type) {
  return name_of(type);
}

}  // namespace minisp::config
