// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// Checkpoints as files: their names in a folder, and what each says of itself beside the arrays
// (doc/checkpoints.md).
#pragma once

#include "io/hdf5.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace minisp::io {

inline constexpr int checkpoint_format_version = 1;
inline constexpr const char* checkpoint_format_name = "miniSP checkpoint";

struct CheckpointHeader {
  std::int64_t steps_done = 0;
  std::vector<std::pair<std::string, std::string>> settings;  ///< config::saved_settings
  std::vector<std::string> states;                            ///< groups of arrays: "weights", ...
};

void write_header(hid_t file, const CheckpointHeader& header);
/// Throws Error (bad_input) where the file is none of this format.
CheckpointHeader read_checkpoint_header(const std::string& path);

/// FOLDER/step-000020.h5.
std::string checkpoint_path(const std::string& folder, std::int64_t step);
/// Steps of the checkpoints in a folder, ascending; empty where there is no such folder. Partial files are
/// none.
std::vector<std::int64_t> checkpoint_steps(const std::string& folder);

/// The file that `--restart` means: that file, or the newest in that folder. Throws Error (bad_input) where
/// there is none.
std::string find_checkpoint(const std::string& file_or_folder);
/// What to do when `path` is damaged: the next older one of its folder, if any.
std::string remedy_for_damaged(const std::string& path);

/// Makes the folder where it is missing and tries to write in it. Throws Error (bad_input) where that fails,
/// or where it holds a checkpoint of a later step than `first_step`, from which the run begins: such a file
/// is of another run, and would be taken for the newest.
void prepare_checkpoint_folder(const std::string& folder, std::int64_t first_step);
/// Removes all but the newest `keep`, and what an interrupted write has left.
void remove_old_checkpoints(const std::string& folder, std::int64_t keep);

}  // namespace minisp::io
