// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ham/offload/offload.hpp>

#include <farcall/call/pack.hpp>

#include <cstddef>
#include <type_traits>

/// The functions free, put, get and copy for memory of types that are not trivially copyable, such
/// as std::pair. They transfer the bytes of the objects, as HAM does.
namespace ham::offload {
namespace detail {

template <class T>
concept has_storage = !std::is_same_v<ham::detail::stored<T>, T>;

template <class T>
[[nodiscard]] buffer_ptr<ham::detail::storage<T>> storage_of(const buffer_ptr<T>& memory) {
  return {reinterpret_cast<ham::detail::storage<T>*>(memory.get()), memory.node()};
}

/// Refuses types such as strings and containers, because their bytes contain pointers to the value
/// instead of the value.
template <class T>
constexpr void require_value_in_bytes() {
  static_assert(!farcall::is_packable_v<T> || std::is_trivially_destructible_v<T>,
                "ham: put, get and copy transfer the bytes of an object; this type has its value "
                "elsewhere. Send it as an argument, or take it as a result.");
}
template <class T>
[[nodiscard]] ham::detail::storage<T>* storage_of(T* local) {
  require_value_in_bytes<T>();
  return reinterpret_cast<ham::detail::storage<T>*>(local);
}
template <class T>
[[nodiscard]] const ham::detail::storage<T>* storage_of(const T* local) {
  require_value_in_bytes<T>();
  return reinterpret_cast<const ham::detail::storage<T>*>(local);
}

} // namespace detail

template <detail::has_storage T>
void free(buffer_ptr<T> memory) {
  offload::free(detail::storage_of(memory));
}

template <detail::has_storage T>
future<void> put(const T* local, const buffer_ptr<T>& remote, std::size_t n) {
  return offload::put(detail::storage_of(local), detail::storage_of(remote), n);
}
template <detail::has_storage T>
void put_sync(const T* local, const buffer_ptr<T>& remote, std::size_t n) {
  offload::put_sync(detail::storage_of(local), detail::storage_of(remote), n);
}

template <detail::has_storage T>
future<void> get(const buffer_ptr<T>& remote, T* local, std::size_t n) {
  return offload::get(detail::storage_of(remote), detail::storage_of(local), n);
}
template <detail::has_storage T>
void get_sync(const buffer_ptr<T>& remote, T* local, std::size_t n) {
  offload::get_sync(detail::storage_of(remote), detail::storage_of(local), n);
}

template <detail::has_storage T>
future<void> copy(const buffer_ptr<T>& from, const buffer_ptr<T>& to, std::size_t n) {
  detail::require_value_in_bytes<T>();
  return offload::copy(detail::storage_of(from), detail::storage_of(to), n);
}
template <detail::has_storage T>
void copy_sync(const buffer_ptr<T>& from, const buffer_ptr<T>& to, std::size_t n) {
  detail::require_value_in_bytes<T>();
  offload::copy_sync(detail::storage_of(from), detail::storage_of(to), n);
}

} // namespace ham::offload
