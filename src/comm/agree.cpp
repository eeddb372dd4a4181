// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "comm/agree.hpp"

#include "util/error.hpp"

#include <cstdint>
#include <new>
#include <string>
#include <vector>

namespace minisp::comm {

namespace {

Error as_error(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return environment_error("out of memory", "this rank",
                             "Use more ranks, a smaller batch or a smaller model");
  } catch (const std::exception& error) {
    return environment_error(error.what(), "internal error", "Report it with the deck and this message");
  } catch (...) {
    return environment_error("unknown exception", "internal error", "Report it with the deck");
  }
}

void broadcast_text(Backend& backend, std::string& text, int root) {
  std::uint64_t length = text.size();
  backend.host_broadcast(&length, sizeof(length), root);
  text.resize(length);
  backend.host_broadcast(text.data(), length, root);
}

}  // namespace

void agree(const Communicator& communicator, std::exception_ptr failure) {
  Backend& backend = communicator.backend();
  const int failed = failure ? 1 : 0;
  std::vector<int> all(static_cast<std::size_t>(backend.size()));
  backend.host_all_gather(&failed, all.data(), sizeof(int));
  int lowest = 0;
  while (lowest < backend.size() && all[static_cast<std::size_t>(lowest)] == 0) ++lowest;
  if (lowest == backend.size()) return;

  const bool mine = backend.rank() == lowest;
  const Error own = mine ? as_error(failure) : environment_error("", "", "");
  int code = static_cast<int>(own.code());
  std::string problem = own.problem(), where = own.where(), remedy = own.remedy();
  backend.host_broadcast(&code, sizeof(code), lowest);
  for (std::string* text : {&problem, &where, &remedy}) broadcast_text(backend, *text, lowest);
  Error error(static_cast<ExitCode>(code), problem, where, remedy);
  error.set_agreed();
  throw error;
}

}  // namespace minisp::comm
