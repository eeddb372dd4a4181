// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint.hpp"

#include "io/output_file.hpp"
#include "util/error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace minisp::train {

namespace {

constexpr std::uint64_t bytes_of_header = 256 * 1024;

/// Elements [begin, end) of a state's part that lie in one tensor.
template <class A>
struct Stretch {
  Index element = 0;  // in the tensor as it is stored here
  Vector<A> values;

  Index size() const { return static_cast<Index>(values.extent(0)); }
};

/// What this rank holds of a tensor. `share` of `shares`: the others that hold the same take the rest.
template <class A>
std::vector<Stretch<A>> stretches_of(const State<A>& state, const model::ParameterEntry& entry, Index share,
                                     Index shares) {
  std::vector<Stretch<A>> stretches;
  for (const auto& part : state.parts) {
    const Index size = static_cast<Index>(part.values.extent(0));
    const Index from = size * share / shares, to = size * (share + 1) / shares;
    const Index begin = std::max(part.first + from, entry.offset),
                end = std::min(part.first + to, entry.offset + entry.size());
    if (begin < end)
      stretches.push_back(
          {begin - entry.offset,
           Kokkos::subview(part.values, Kokkos::make_pair(begin - part.first, end - part.first))});
  }
  return stretches;
}

/// A rectangle of a tensor as it is stored here, row-major.
struct Block {
  Index row = 0, column = 0, rows = 0, columns = 0;
};

/// `count` elements from `element` on: the end of a row, whole rows, the beginning of a row.
std::vector<Block> blocks_of(const model::ParameterEntry& entry, Index element, Index count) {
  std::vector<Block> blocks;
  const Index width = entry.columns;
  while (count > 0) {
    Block block{element / width, element % width, 1, std::min(count, width - element % width)};
    if (block.columns == width) block.rows = count / width;
    element += block.rows * block.columns;
    count -= block.rows * block.columns;
    blocks.push_back(block);
  }
  return blocks;
}

/// Where a block lies in the array of the file.
io::Slab slab_of(const model::ParameterEntry& entry, const Block& b) {
  if (entry.shape.size() == 1) return {{b.column}, {b.columns}};
  if (entry.transposed) return {{b.column, b.row}, {b.columns, b.rows}};
  return {{b.row, b.column}, {b.rows, b.columns}};
}

/// out (columns, rows) = in (rows, columns), where the file has the tensor transposed; else a copy.
template <class A>
void reorder(bool transposed, Index rows, Index columns, const A* in, A* out) {
  if (!transposed) {
    std::copy(in, in + rows * columns, out);
    return;
  }
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < columns; ++c) out[c * rows + r] = in[r * columns + c];
}

std::string array_path(const std::string& state, const model::ParameterEntry& entry) {
  return "/" + state + "/" + entry.name;
}

/// Host memory as a view. It is no Kokkos memory, which is the step's to account for.
template <class A>
auto host_view(std::vector<A>& memory) {
  return Kokkos::View<A*, Kokkos::LayoutRight, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
      memory.data(), memory.size());
}

template <class A>
void write_tensor(io::OutputFile& file, const State<A>& state, const model::ParameterEntry& entry,
                  Index share, Index shares) {
  std::vector<io::Slab> slabs;
  std::vector<A> data;
  for (const auto& stretch : stretches_of(state, entry, share, shares)) {
    std::vector<A> flat(static_cast<std::size_t>(stretch.size()));
    Kokkos::deep_copy(host_view(flat), stretch.values);
    auto next = data.size();
    data.resize(next + flat.size());
    const A* in = flat.data();
    for (const auto& block : blocks_of(entry, stretch.element, stretch.size())) {
      slabs.push_back(slab_of(entry, block));
      reorder(entry.transposed, block.rows, block.columns, in, data.data() + next);
      in += block.rows * block.columns;
      next += static_cast<std::size_t>(block.rows * block.columns);
    }
  }
  file.write_global<A>(array_path(state.name, entry), entry.shape, slabs, data.data(), "1",
                       state.description);
}

template <class A>
void read_stretch(hid_t dataset, const model::ParameterEntry& entry, const Stretch<A>& stretch) {
  std::vector<A> flat(static_cast<std::size_t>(stretch.size())), stored;
  A* out = flat.data();
  for (const auto& block : blocks_of(entry, stretch.element, stretch.size())) {
    stored.resize(static_cast<std::size_t>(block.rows * block.columns));
    io::read_slab(dataset, slab_of(entry, block), stored.data());
    // The file's rows are our columns, so the way back is the same with the two exchanged.
    reorder(entry.transposed, entry.transposed ? block.columns : block.rows,
            entry.transposed ? block.rows : block.columns, stored.data(), out);
    out += block.rows * block.columns;
  }
  Kokkos::deep_copy(stretch.values, host_view(flat));
}

}  // namespace

template <class A>
Index save_checkpoint(MPI_Comm comm, const parallel::Mesh& mesh, const model::ParameterLayout& layout,
                      const std::vector<State<A>>& states, io::CheckpointHeader header,
                      const std::string& path) {
  header.states.clear();
  for (const auto& state : states) header.states.push_back(state.name);
  io::OutputFile file(comm, path, {.overwrite = true, .sealed = true, .key = "checkpoint.folder"});
  for (const auto& state : states)
    for (const auto& entry : layout.entries())
      write_tensor(file, state, entry, mesh.replicas().rank(), mesh.replicas().size());
  file.write_on_root(bytes_of_header, [&](hid_t root) { io::write_header(root, header); });
  file.commit();
  return static_cast<Index>(states.size()) * layout.size() * Index(sizeof(A));
}

template <class A>
void load_states(const model::ParameterLayout& layout, const std::vector<State<A>>& states,
                 const std::string& path) {
  const auto file = io::open_for_reading(path);
  for (const auto& state : states)
    for (const auto& entry : layout.entries()) {
      const auto stretches = stretches_of(state, entry, 0, 1);
      if (stretches.empty()) continue;
      const auto dataset = io::open_dataset(file.get(), array_path(state.name, entry));
      const auto shape = io::shape_of(dataset.get());
      if (shape != entry.shape)
        throw input_error(fmt::format("{} has shape [{}], the architecture needs [{}]", entry.name,
                                      fmt::join(shape, ", "), fmt::join(entry.shape, ", ")),
                          path, "Restart with the deck that the checkpoint was saved under");
      for (const auto& stretch : stretches) read_stretch(dataset.get(), entry, stretch);
    }
}

#define MINISP_INSTANTIATE(A)                                                                                \
  template Index save_checkpoint<A>(MPI_Comm, const parallel::Mesh&, const model::ParameterLayout&,          \
                                    const std::vector<State<A>>&, io::CheckpointHeader, const std::string&); \
  template void load_states<A>(const model::ParameterLayout&, const std::vector<State<A>>&,                  \
                               const std::string&);
MINISP_INSTANTIATE(float)
MINISP_INSTANTIATE(double)
#undef MINISP_INSTANTIATE

}  // namespace minisp::train
