// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "util/memory_tracker.hpp"

#include <Kokkos_Core.hpp>

#include <atomic>
#include <fstream>
#include <string>

namespace minisp {

namespace {

std::atomic<std::size_t> held{0}, most{0};
Kokkos_Profiling_allocateDataFunction next_allocate = nullptr;
Kokkos_Profiling_deallocateDataFunction next_deallocate = nullptr;

void on_allocate(const Kokkos_Profiling_SpaceHandle space, const char* label, const void* pointer,
                 const std::uint64_t bytes) {
  const std::size_t now = held += bytes;
  for (std::size_t seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
  }
  if (next_allocate) next_allocate(space, label, pointer, bytes);
}

void on_deallocate(const Kokkos_Profiling_SpaceHandle space, const char* label, const void* pointer,
                   const std::uint64_t bytes) {
  // What was allocated before install() is not in the count.
  std::size_t seen = held;
  while (!held.compare_exchange_weak(seen, seen - (bytes < seen ? bytes : seen))) {
  }
  if (next_deallocate) next_deallocate(space, label, pointer, bytes);
}

}  // namespace

void MemoryTracker::install() {
  namespace tools = Kokkos::Tools::Experimental;
  const auto loaded = tools::get_callbacks();
  if (loaded.allocate_data == on_allocate) return;  // it would call itself as the tool that was loaded before
  next_allocate = loaded.allocate_data;
  next_deallocate = loaded.deallocate_data;
  tools::set_allocate_data_callback(on_allocate);
  tools::set_deallocate_data_callback(on_deallocate);
}

std::size_t MemoryTracker::current() {
  return held;
}
std::size_t MemoryTracker::peak() {
  return most;
}
void MemoryTracker::reset_peak() {
  most = held.load();
}

std::size_t process_peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::stoull(line.substr(6)) * 1024;
  return 0;
}

}  // namespace minisp
