// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
// The state of a training as global arrays under Hugging Face names, and back to any decomposition. Every
// rank writes and reads what it holds; none ever holds more.
#pragma once

#include "io/checkpoint_file.hpp"
#include "model/parameters.hpp"
#include "parallel/mesh.hpp"

#include <mpi.h>

#include <string>
#include <vector>

namespace minisp::train {

/// Something that there is one number of per parameter (weights, or the optimizer's moments), as far as this
/// rank holds it. A: the type in which it is kept, which is also that of the file.
template <class A>
struct State {
  struct Part {
    Index first = 0;   ///< element of the flat buffer (model::ParameterLayout)
    Vector<A> values;  ///< the state itself, not a copy
  };
  std::string name;  ///< group in the file
  std::string description;
  std::vector<Part> parts;
};

/// Collective over mesh.world(), whose ranks are those of `comm`. Writes a sealed file at `path`, replacing
/// what is there, whole or not at all (io::OutputFile); header.states is filled in. Ranks that hold the same
/// shard share the writing. Returns the bytes of the states. Throws Error (environment, agreed).
template <class A>
Index save_checkpoint(MPI_Comm comm, const parallel::Mesh& mesh, const model::ParameterLayout& layout,
                      const std::vector<State<A>>& states, io::CheckpointHeader header,
                      const std::string& path);

/// Fills `states` from a file whose seal was found good (io::require_seal). Not collective. Throws Error
/// (bad_input) where an array is missing or has another shape.
template <class A>
void load_states(const model::ParameterLayout& layout, const std::vector<State<A>>& states,
                 const std::string& path);

}  // namespace minisp::train
