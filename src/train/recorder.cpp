// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "train/recorder.hpp"

#include "comm/all_reduce.hpp"

namespace minisp::train {

template <class T>
Recorder<T>::Recorder(const parallel::Mesh& mesh, Index accumulation,
                      std::function<bool(const std::string&)> wanted)
    : mesh_(mesh), accumulation_(accumulation), wanted_(std::move(wanted)) {}

template <class T>
model::TensorObserver<T> Recorder<T>::observer() {
  return [this](const std::string& name, const Matrix<const T>& tensor) {
    if (!wanted_(name)) return;
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), tensor);
    auto& record = tensors_[name];
    record.features = static_cast<Index>(host.extent(1));
    for (std::size_t r = 0; r < host.extent(0); ++r)
      for (std::size_t c = 0; c < host.extent(1); ++c)
        record.rows.push_back(static_cast<Accumulate<T>>(host(r, c)));
  };
}

template <class T>
std::vector<std::string> Recorder<T>::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

template <class T>
std::vector<Index> Recorder<T>::shape(const std::string& name) const {
  const auto& plan = mesh_.plan();
  return {accumulation_ * plan.batch, plan.sequence_length, tensors_.at(name).features};
}

template <class T>
std::vector<io::Slab> Recorder<T>::slabs(Index features) const {
  std::vector<io::Slab> slabs;
  for (Index micro = 0; micro < accumulation_; ++micro)
    for (const auto& shard : mesh_.plan().shards(mesh_.rank()))
      slabs.push_back({{micro * mesh_.plan().batch + shard.sequence, shard.begin, 0},
                       {1, shard.end - shard.begin, features}});
  return slabs;
}

template <class T>
std::vector<double> Recorder<T>::gather(const std::string& name) const {
  const auto& tensor = tensors_.at(name);
  const auto extents = shape(name);
  Vector<double> global("minisp::recorder::global", extents[0] * extents[1] * extents[2]);
  const auto host = Kokkos::create_mirror_view(global);
  Kokkos::deep_copy(host, 0.0);
  std::size_t next = 0;
  for (const auto& slab : slabs(tensor.features)) {
    const Index first = (slab.start[0] * extents[1] + slab.start[1]) * tensor.features;
    for (Index i = 0; i < slab.count[1] * tensor.features; ++i)
      host(first + i) = static_cast<double>(tensor.rows[next++]);
  }
  Kokkos::deep_copy(global, host);
  comm::all_reduce_sum(mesh_.world(), Exec(), global);
  Kokkos::deep_copy(host, global);
  return std::vector<double>(host.data(), host.data() + host.size());
}

template <class T>
void Recorder<T>::write(io::OutputFile& file, const std::string& name, const std::string& path,
                        const std::string& units, const std::string& description) const {
  const auto& tensor = tensors_.at(name);
  file.write_global<Accumulate<T>>(path, shape(name), slabs(tensor.features), tensor.rows.data(), units,
                                   description);
}

template class Recorder<bfloat16>;
template class Recorder<float>;
template class Recorder<double>;

}  // namespace minisp::train
