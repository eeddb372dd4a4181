// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The report of a run on standard output.
#pragma once

#include "io/result.hpp"

#include <iosfwd>

namespace minisp::bench {

/// Phases, traffic, memory, checks, and last the lines "FOM: ..." and "VALID: yes|no ...".
void print_report(std::ostream& out, const io::RunResult& result);

/// Share of the timed steps that the exchange around attention takes, on the mean rank.
double exchange_share(const io::RunResult& result);

}  // namespace minisp::bench
