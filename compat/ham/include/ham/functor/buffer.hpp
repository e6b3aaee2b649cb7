// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ham/net/communicator.hpp>

#include <farcall/copy/transfer.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ham {
namespace detail {

/// Uninitialised memory with the size and the alignment of a T.
template <class T>
struct storage {
  alignas(T) std::byte bytes[sizeof(T)];
};

/// Element type of a buffer for objects of type T. HAM allocates memory for any type, for example
/// std::pair, but a farcall::buffer holds only trivially copyable types. If T is not trivially
/// copyable, the buffer therefore holds storage<T>.
template <class T>
using stored = std::conditional_t<std::is_trivially_copyable_v<T>, T, storage<T>>;

} // namespace detail

/// Functor that allocates memory for `n` elements of type T on the node that runs the functor.
template <class T>
class new_buffer {
 public:
  using result_type = net::buffer_ptr<T>;

  /// The parameter `source` has no effect. In HAM it is the node that makes the call.
  new_buffer(std::size_t n, node_t /*source*/ = 0) : n_(n) {}
  result_type operator()() const {
    const farcall::node here = farcall::this_node();
    auto* const memory = here.template allocate<detail::stored<T>>(n_).release().data();
    return {reinterpret_cast<T*>(memory), static_cast<node_t>(here.id())};
  }

 private:
  std::size_t n_;
};

/// Functor that frees memory of new_buffer. It must run on the node that has the memory.
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
