// SPDX-FileCopyrightText: the miniSP contributors
// SPDX-License-Identifier: BSD-3-Clause
#include "model/attention.hpp"

#include "model/attention_device.hpp"
#include "model/attention_segments.hpp"

#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
namespace minisp::model {
template <class T>
using AttentionEngine = DeviceAttention<T>;
}
#else
#include "model/attention_host.hpp"
namespace minisp::model {
template <class T>
using AttentionEngine = host::HostAttention<T>;
}
#endif

namespace minisp::model {

template <class T>
struct Attention<T>::Implementation {
  explicit Implementation(const AttentionShape& s) : shape(s), engine(s) {}

  AttentionShape shape;
  Index visible_pairs = 0;
  AttentionEngine<T> engine;
};

template <class T>
Attention<T>::Attention() = default;
template <class T>
Attention<T>::~Attention() = default;
template <class T>
Attention<T>::Attention(Attention&&) noexcept = default;
template <class T>
Attention<T>& Attention<T>::operator=(Attention&&) noexcept = default;

template <class T>
Attention<T>::Attention(Index max_rows, int heads, int kv_heads, int head_dim) {
  const AttentionShape shape{max_rows, heads, kv_heads, head_dim};
  check_attention_shape(shape);
  impl_ = std::make_unique<Implementation>(shape);
}

template <class T>
void Attention<T>::set_map(const AttentionMap& map) {
  check_attention_map(map, impl_->shape.max_rows);
  impl_->visible_pairs = count_visible_pairs(map);
  impl_->engine.set_map(map);
}

template <class T>
void Attention<T>::forward(const Exec& exec, HeadRows<const T> q, HeadRows<const T> k, HeadRows<const T> v,
                           HeadRows<T> o, const Matrix<Accumulate<T>>& lse) {
  impl_->engine.forward(exec, q, k, v, o, lse);
}

template <class T>
void Attention<T>::backward(const Exec& exec, HeadRows<const T> q, HeadRows<const T> k, HeadRows<const T> v,
                            HeadRows<const T> o, HeadRows<const T> dout,
                            const Matrix<const Accumulate<T>>& lse, HeadRows<T> dq, HeadRows<T> dk,
                            HeadRows<T> dv) {
  impl_->engine.backward(exec, q, k, v, o, dout, lse, dq, dk, dv);
}

template <class T>
Index Attention<T>::visible_pairs() const {
  return impl_ ? impl_->visible_pairs : 0;
}

template <class T>
std::size_t Attention<T>::workspace_bytes() const {
  return impl_ ? AttentionEngine<T>::workspace_bytes(impl_->shape) : 0;
}

template <class T>
std::size_t Attention<T>::workspace_bytes(Index max_rows, int heads, int kv_heads, int head_dim) {
  const AttentionShape shape{max_rows, heads, kv_heads, head_dim};
  check_attention_shape(shape);
  return AttentionEngine<T>::workspace_bytes(shape);
}

template class Attention<bfloat16>;
template class Attention<float>;
template class Attention<double>;

}  // namespace minisp::model
