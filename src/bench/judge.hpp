// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The verdict over a run: what was checked, against which limit.
#pragma once

#include "io/result.hpp"

#include <string>
#include <vector>

namespace minisp::bench {

/// What the judge looks at beside the result itself.
struct Evidence {
  std::vector<io::CheckRow> self_check;
  std::vector<std::string> traffic_differences;  ///< of all ranks, a sentence each
  double unattributed_fraction = 0;  ///< share of a step that no phase covers: least of steps, worst rank
  Index ranks_with_other_weights = 0;
  Index memory_growth = 0;  ///< bytes between the first timed step and the last, largest
};

/// VALID when every check passes; each that fails gives one reason.
io::Verdict judge(const Evidence& evidence, const io::RunResult& result);

}  // namespace minisp::bench
