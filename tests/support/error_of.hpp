// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "util/error.hpp"

#include <gtest/gtest.h>

#include <string>

namespace minisp::test {

/// The message of the Error (bad_input) that `call` throws; fails where it throws none.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input) << error.what();
    EXPECT_FALSE(error.where().empty()) << error.what();
    EXPECT_FALSE(error.remedy().empty()) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace minisp::test
