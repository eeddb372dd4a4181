// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "parallel/mesh.hpp"

#include <stdexcept>
#include <utility>

namespace minisp::parallel {

namespace {

const Plan& checked(const Plan& plan, int ranks) {
  if (plan.ranks != ranks) throw std::invalid_argument("Mesh: the plan is for another number of ranks");
  return plan;
}

}  // namespace

Mesh::Mesh(const comm::Communicator& world, Plan plan)
    : world_(world),
      plan_(checked(plan, world.size())),
      sequence_(world.split(plan_.group_of(world.rank()), plan_.place_of(world.rank()), "sequence")),
      shard_(world.split(world.rank() / plan_.shard_ranks, world.rank(), "shard")),
      replicas_(world.split(world.rank() % plan_.shard_ranks, world.rank(), "replicas")) {}

}  // namespace minisp::parallel
