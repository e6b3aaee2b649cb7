#pragma once

#include <ham/net/communicator.hpp>

#include <farcall/offload/transfer.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ham {
namespace detail {

/// Memory of a T.
template <class T>
struct storage {
  alignas(T) std::byte bytes[sizeof(T)];
};

/// What memory for T is asked for as: HAM has memory for any type, such as std::pair, farcall for
/// those that are trivially copyable.
template <class T>
using stored = std::conditional_t<std::is_trivially_copyable_v<T>, T, storage<T>>;

} // namespace detail

/// Memory for `n` elements of T on the node that runs it.
template <class T>
class new_buffer {
 public:
  using result_type = net::buffer_ptr<T>;

  /// `source` once named the node that asks; any will do.
  new_buffer(std::size_t n, node_t /*source*/ = 0) : n_(n) {}
  result_type operator()() const {
    const farcall::node here = farcall::this_node();
    auto* const memory = here.template allocate<detail::stored<T>>(n_).release().data();
    return {reinterpret_cast<T*>(memory), static_cast<node_t>(here.id())};
  }

 private:
  std::size_t n_;
};

/// Frees what new_buffer made, on the node that runs it.
template <class T>
class delete_buffer {
 public:
  using result_type = void;

  explicit delete_buffer(const net::buffer_ptr<T>& ptr) : ptr_(ptr) {}
  void operator()() const {
    const farcall::node here = farcall::this_node();
    using element = detail::stored<T>;
    const auto address = reinterpret_cast<std::uintptr_t>(ptr_.get());
    farcall::buffer<element>::adopt(here, {here.id(), address, 1}).reset();
  }

 private:
  net::buffer_ptr<T> ptr_;
};

} // namespace ham
