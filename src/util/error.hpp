// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The one exception type of miniSP: what went wrong, where, and what to do about it.
#pragma once

#include <stdexcept>
#include <string>

namespace minisp {

/// Exit codes of every command.
enum class ExitCode : int {
  valid = 0,        ///< finished and, where there is a verdict, VALID
  invalid = 1,      ///< finished, but the result is INVALID
  bad_input = 2,    ///< deck, command line or file: the user can mend it
  environment = 3,  ///< device, memory, MPI, disk: the machine has to be mended
  stopped = 4,      ///< ended early on a signal or at the time limit, with a checkpoint to go on from
};

/// Where is a file with its line and key as far as they are known ("inputs/tiny.toml:12: model.layers"),
/// remedy one sentence that says what to do. The message reads "WHERE: WHAT. REMEDY".
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, std::string what, std::string where, std::string remedy);

  ExitCode code() const { return code_; }
  const std::string& problem() const { return problem_; }
  const std::string& where() const { return where_; }
  const std::string& remedy() const { return remedy_; }

  /// True once every rank is known to hold this same error, so that one may print it and all may leave
  /// in good order; else the job has to be aborted.
  bool agreed() const { return agreed_; }
  void set_agreed() { agreed_ = true; }

 private:
  ExitCode code_;
  std::string problem_, where_, remedy_;
  bool agreed_ = false;
};

/// The user's input is wrong (exit code 2).
inline Error input_error(std::string what, std::string where, std::string remedy) {
  return Error(ExitCode::bad_input, std::move(what), std::move(where), std::move(remedy));
}

/// The machine is wrong (exit code 3).
inline Error environment_error(std::string what, std::string where, std::string remedy) {
  return Error(ExitCode::environment, std::move(what), std::move(where), std::move(remedy));
}

}  // namespace minisp
