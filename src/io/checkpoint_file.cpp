// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "io/checkpoint_file.hpp"

#include "io/output_file.hpp"
#include "io/provenance.hpp"
#include "util/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

namespace minisp::io {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view prefix = "step-", suffix = ".h5", partial_suffix = ".h5.partial";

/// The step in "step-N" + `end`.
std::optional<std::int64_t> step_in(const std::string& name, std::string_view end) {
  if (!name.starts_with(prefix) || !name.ends_with(end) || name.size() <= prefix.size() + end.size())
    return {};
  std::int64_t step = 0;
  const char *const first = name.data() + prefix.size(), *const last = name.data() + name.size() - end.size();
  const auto [read_to, error] = std::from_chars(first, last, step);
  if (error != std::errc() || read_to != last || step < 0) return {};
  return step;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code))
    names.push_back(entry->path().filename().string());
  return names;
}

}  // namespace

void write_header(hid_t file, const CheckpointHeader& header) {
  write_attribute(file, "format", checkpoint_format_name);
  write_attribute<std::int64_t>(file, "format_version", checkpoint_format_version);
  write_attribute(file, "software", version_text());
  write_attribute<std::int64_t>(file, "steps_done", header.steps_done);
  write_attribute(file, "states", header.states);
  const auto settings = make_group(file, "/settings");
  for (const auto& [key, value] : header.settings) write_attribute(settings.get(), key, value);
}

CheckpointHeader read_checkpoint_header(const std::string& path) {
  const auto file = open_for_reading(path);
  if (!has_attribute(file.get(), "format") ||
      read_attribute<std::string>(file.get(), "format") != checkpoint_format_name)
    throw input_error("is no checkpoint", path, "Name a file that a run has left in its checkpoint.folder");
  const auto version = read_attribute<std::int64_t>(file.get(), "format_version");
  if (version != checkpoint_format_version)
    throw input_error(
        fmt::format("has version {} of the checkpoint's format", version), path,
        fmt::format("This program reads version {}: use the one that wrote the file, {}",
                    checkpoint_format_version, read_attribute<std::string>(file.get(), "software")));
  CheckpointHeader header;
  header.steps_done = read_attribute<std::int64_t>(file.get(), "steps_done");
  header.states = read_attribute<std::vector<std::string>>(file.get(), "states");
  const auto settings = open_group(file.get(), "/settings");
  for (const auto& key : list_attributes(settings.get()))
    header.settings.emplace_back(key, read_attribute<std::string>(settings.get(), key));
  return header;
}

std::string checkpoint_path(const std::string& folder, std::int64_t step) {
  return (fs::path(folder) / fmt::format("{}{:06}{}", prefix, step, suffix)).string();
}

std::vector<std::int64_t> checkpoint_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const auto& name : names_in(folder))
    if (const auto step = step_in(name, suffix)) steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string find_checkpoint(const std::string& file_or_folder) {
  std::error_code ignored;
  if (fs::is_regular_file(file_or_folder, ignored)) return file_or_folder;
  const auto steps = checkpoint_steps(file_or_folder);
  if (!steps.empty()) return checkpoint_path(file_or_folder, steps.back());
  throw input_error(fs::is_directory(file_or_folder, ignored) ? "there is no checkpoint in this folder"
                                                              : "there is no such file or folder",
                    file_or_folder,
                    "Name a folder with step-....h5 or such a file, or start anew without --restart");
}

std::string remedy_for_damaged(const std::string& path) {
  const auto step = step_in(fs::path(path).filename().string(), suffix);
  const auto folder = fs::path(path).parent_path().string();
  const auto steps = checkpoint_steps(folder.empty() ? "." : folder);
  const auto newer = std::lower_bound(steps.begin(), steps.end(), step.value_or(0));
  if (newer == steps.begin()) return "There is no older one beside it: take a copy, or start anew";
  return "Move it away to go on from the one before it, " + checkpoint_path(folder, *std::prev(newer));
}

void prepare_checkpoint_folder(const std::string& folder, std::int64_t first_step) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (!fs::is_directory(folder))
    throw input_error("cannot be made a folder" + (code ? " (" + code.message() + ")" : ""), folder,
                      "Change checkpoint.folder");
  const auto steps = checkpoint_steps(folder);
  if (!steps.empty() && steps.back() > first_step)
    throw input_error(fmt::format("holds {}, but this run begins after step {}",
                                  fs::path(checkpoint_path("", steps.back())).string(), first_step),
                      folder,
                      "Go on with --restart " + folder + ", change checkpoint.folder, or move the file away");
  check_output_path(checkpoint_path(folder, first_step),
                    OutputOptions{.overwrite = true, .key = "checkpoint.folder"});
}

void remove_old_checkpoints(const std::string& folder, std::int64_t keep) {
  const auto steps = checkpoint_steps(folder);
  std::error_code ignored;
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < steps.size(); ++i)
    fs::remove(checkpoint_path(folder, steps[i]), ignored);
  for (const auto& name : names_in(folder))
    if (step_in(name, partial_suffix)) fs::remove(fs::path(folder) / name, ignored);
}

}  // namespace minisp::io
