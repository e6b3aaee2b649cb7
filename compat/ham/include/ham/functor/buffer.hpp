#pragma once

#include <ham/net/communicator.hpp>

#include <farcall/offload/transfer.hpp>

#include <cstddef>
#include <cstdint>

namespace ham {

/// Memory for `n` elements of T on the node that runs it.
template <class T>
class new_buffer {
 public:
  using result_type = net::buffer_ptr<T>;

  /// `source` once named the node that asks; any will do.
  new_buffer(std::size_t n, node_t /*source*/ = 0) : n_(n) {}
  result_type operator()() const {
    const farcall::node here = farcall::this_node();
    return {here.template allocate<T>(n_).release().data(), static_cast<node_t>(here.id())};
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
    const farcall::remote_span<T> memory(here.id(), reinterpret_cast<std::uintptr_t>(ptr_.get()),
                                         1);
    farcall::buffer<T>::adopt(here, memory).reset();
  }

 private:
  net::buffer_ptr<T> ptr_;
};

} // namespace ham
