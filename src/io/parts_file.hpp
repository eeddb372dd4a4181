// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// A text that all ranks have parts of, one after the other, in one file.
#pragma once

#include "comm/communicator.hpp"

#include <string>

namespace minisp::io {

/// Collective. PATH = the ranks' parts in the order of ranks, written through rank 0 in pieces of a megabyte,
/// as PATH.partial first and renamed when it is on the disk. Every rank throws the same Error (environment)
/// when it cannot be written; what was at PATH stays then.
void write_parts(const comm::Communicator& world, const std::string& path, const std::string& part);

/// On one rank: the same of a text of its own.
void write_text_file(const std::string& path, const std::string& text);

}  // namespace minisp::io
