// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// One rank's data for all.
#pragma once

#include "comm/communicator.hpp"
#include "comm/measure.hpp"

namespace minisp::comm {

/// data = `data` of rank `root`. Contiguous. The root sends it to each other rank, the others send nothing
/// (the library may forward it through them; the definition's bytes are counted).
template <class T>
void broadcast(const Communicator& communicator, const Exec& exec, const Vector<T>& data, int root) {
  const auto bytes = data.size() * sizeof(T);
  measure(communicator, exec, "broadcast", communicator.rank() == root ? static_cast<Index>(bytes) : 0,
          [&] { communicator.backend().broadcast(exec, data.data(), bytes, root); });
}

}  // namespace minisp::comm
