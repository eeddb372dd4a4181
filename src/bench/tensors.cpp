// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tensors.hpp"

#include "io/result.hpp"

namespace minisp::bench {

namespace {

template <class View>
auto host(const View& view) {
  return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
}

bool is_hidden_state(const std::string& name) {
  return name.rfind("hidden_states/", 0) == 0;
}

}  // namespace

template <class T>
Tensors<T>::Tensors(const config::OutputConfig& wanted, const parallel::Mesh& mesh, Index accumulation)
    : wanted_(wanted), mesh_(mesh), recorder_(mesh, accumulation, [wanted](const std::string& name) {
        return (wanted.logits && name == "logits") ||
               (wanted.activations && (name.rfind("activations/", 0) == 0 || is_hidden_state(name)));
      }) {}

template <class T>
void Tensors<T>::capture(train::Trainer<T>& trainer, PhaseTimers& timers) {
  if (!(wanted_.activations || wanted_.logits || wanted_.gradients)) return;
  auto& ledger = mesh_.world().ledger();
  const auto counted = ledger;
  const auto timed = timers;
  trainer.observe(recorder_.observer());
  trainer.compute_gradients();
  trainer.observe({});
  if (wanted_.gradients) {
    const auto flat = host(trainer.gradients());
    gradients_.assign(flat.data(), flat.data() + flat.size());
  }
  ledger = counted;
  timers = timed;
}

template <class T>
void Tensors<T>::write(io::OutputFile& file, const train::Trainer<T>& trainer) const {
  for (const auto& name : recorder_.names())
    recorder_.write(file, name, (is_hidden_state(name) ? "/activations/" : "/") + name, "1",
                    "(sequence, position, feature) of the last step");
  if (wanted_.gradients)
    for (const auto& entry : trainer.layout().entries())
      write_parameter(file, entry, HostVector<const Accumulate<T>>(gradients_.data(), gradients_.size()),
                      io::gradient_path(entry.name), "Gradient of the last step's loss");
  if (!wanted_.weights) return;
  // bf16 is written as fp32, which every reader knows.
  const auto stored = host(trainer.weights());
  const HostVector<Accumulate<T>> weights(
      Kokkos::view_alloc("minisp::tensors::weights", Kokkos::WithoutInitializing), stored.extent(0));
  for (std::size_t i = 0; i < stored.extent(0); ++i) weights(i) = static_cast<Accumulate<T>>(stored(i));
  for (const auto& entry : trainer.layout().entries())
    write_parameter(file, entry, weights, io::weight_path(entry.name), "Weights after the last step");
}

/// One tensor of the flat buffer under its Hugging Face name and shape; the ranks share the rows.
template <class T>
void Tensors<T>::write_parameter(io::OutputFile& file, const model::ParameterEntry& entry,
                                 const HostVector<const Accumulate<T>>& flat, const std::string& path,
                                 const std::string& description) const {
  const auto& world = mesh_.world();
  const auto tensor = model::to_hugging_face<Accumulate<T>>(entry, flat);
  const Index rows = entry.shape.front(), width = entry.size() / rows;
  const Index begin = rows * world.rank() / world.size(), end = rows * (world.rank() + 1) / world.size();
  const std::vector<Accumulate<T>> part(tensor.begin() + begin * width, tensor.begin() + end * width);
  std::vector<Index> start(entry.shape.size(), 0), count = entry.shape;
  start.front() = begin;
  count.front() = end - begin;
  std::vector<io::Slab> slabs;
  if (end > begin) slabs.push_back({start, count});
  file.write_global<Accumulate<T>>(path, entry.shape, slabs, part.data(), "1", description);
}

template class Tensors<bfloat16>;
template class Tensors<float>;
template class Tensors<double>;

}  // namespace minisp::bench
