// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ham/functor/buffer.hpp>
#include <ham/functor/function.hpp>
#include <ham/misc/constants.hpp>
#include <ham/misc/traits.hpp>
#include <ham/offload/future.hpp>
#include <ham/offload/runtime.hpp>

#include <farcall/copy/in_order.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

namespace ham::offload {

using net::buffer_ptr;
using net::node_descriptor;

namespace detail {

/// Form in which a functor is sent. If farcall cannot pack the functor, its bytes are sent as in
/// HAM.
template <class F>
struct shipped {
  F functor;

  typename returned<typename F::result_type>::type operator()() {
    if constexpr (std::is_void_v<typename F::result_type>) {
      functor();
    } else {
      return functor();
    }
  }
};

} // namespace detail
} // namespace ham::offload

/// Allows pointers in functors, because functors of HAM may contain pointers to memory of the
/// target. By default farcall refuses pointers.
template <class F>
inline constexpr bool farcall::may_hold_pointers<ham::offload::detail::shipped<F>> = true;

namespace ham::offload {
namespace detail {

template <class F>
using functor_of = std::remove_cvref_t<F>;

/// Returns a handle of `node`. Calls by this handle run in the order in which they are made.
/// Programs expect this order, because HAM over MPI has it.
[[nodiscard]] inline farcall::ordered_place place_of(node_t node) {
  return farcall::in_order(runtime::instance().node(node));
}

/// Type of the reference by which a call takes a functor of the caller. A call copies a functor
/// that is an lvalue. If the functor cannot be copied, the call moves from the lvalue. HAM moves
/// from all functors.
template <class F>
using taken_functor =
    std::conditional_t<std::is_copy_constructible_v<functor_of<F>>, F&&, functor_of<F>&&>;

template <class T>
[[nodiscard]] farcall::ordered_span<T> span_of(const buffer_ptr<T>& memory, std::size_t n) {
  const farcall::node where = runtime::instance().node(memory.node());
  return farcall::in_order(
      farcall::remote_span<T>(where.id(), reinterpret_cast<std::uintptr_t>(memory.get()), n),
      where);
}

} // namespace detail

[[nodiscard]] inline node_t this_node() { return runtime::instance().this_node(); }
[[nodiscard]] inline std::size_t num_nodes() {
  return static_cast<std::size_t>(runtime::instance().num_nodes());
}
[[nodiscard]] inline bool is_host() { return runtime::instance().is_host(); }
[[nodiscard]] inline bool is_host(node_t node) { return node == 0; }
[[nodiscard]] inline const node_descriptor& get_node_description(node_t node) {
  return runtime::instance().node_description(node);
}

/// Starts the functor on `node` and returns without waiting. The future gets the functor's result.
template <class F>
future<typename detail::functor_of<F>::result_type> async(node_t node, F&& functor) {
  return farcall::async(
      detail::place_of(node),
      detail::shipped<detail::functor_of<F>>{static_cast<detail::taken_functor<F>>(functor)});
}

/// Runs the functor on `node`, waits until it has ended, and returns its result.
template <class F>
typename detail::functor_of<F>::result_type sync(node_t node, F&& functor) {
  using result = typename detail::functor_of<F>::result_type;
  const auto call = [&] {
    return farcall::sync(
        detail::place_of(node),
        detail::shipped<detail::functor_of<F>>{static_cast<detail::taken_functor<F>>(functor)});
  };
  if constexpr (std::is_void_v<result>) {
    call();
  } else {
    return detail::from_transported<result>(call());
  }
}

/// Starts the functor on `node` without a reply, so that the caller cannot learn whether the
/// functor has run.
template <class F>
void ping(node_t node, F&& functor) {
  farcall::post(detail::place_of(node), detail::shipped<detail::functor_of<F>>{
                                            static_cast<detail::taken_functor<F>>(functor)});
}

/// Allocates uninitialised memory for `n` elements on `node`. The caller frees the memory by
/// free(). Throws farcall::out_of_memory.
template <class T>
[[nodiscard]] buffer_ptr<T> allocate(const node_t node, std::size_t n) {
  const auto memory =
      runtime::instance().node(node).template allocate<ham::detail::stored<T>>(n).release();
  return {reinterpret_cast<T*>(memory.address()), node};
}

template <class T>
void free(buffer_ptr<T> memory) {
  auto owned = farcall::buffer<T>::adopt(runtime::instance().node(memory.node()),
                                         detail::span_of(memory, 1).span());
  farcall::reset_in_order(owned);
}

/// Copies `n` elements from this node to memory of any node, which may be this one.
template <class T>
future<void> put(const T* local, const buffer_ptr<T>& remote, std::size_t n) {
  return farcall::put(std::span<const T>(local, n), detail::span_of(remote, n));
}
template <class T>
void put_sync(const T* local, const buffer_ptr<T>& remote, std::size_t n) {
  farcall::put_sync(std::span<const T>(local, n), detail::span_of(remote, n));
}

/// Copies `n` elements from memory of any node, which may be this one, to this node.
template <class T>
future<void> get(const buffer_ptr<T>& remote, T* local, std::size_t n) {
  return farcall::get(detail::span_of(remote, n), std::span<T>(local, n));
}
template <class T>
void get_sync(const buffer_ptr<T>& remote, T* local, std::size_t n) {
  farcall::get_sync(detail::span_of(remote, n), std::span<T>(local, n));
}

/// Copies `n` elements directly between any two nodes.
template <class T>
future<void> copy(const buffer_ptr<T>& from, const buffer_ptr<T>& to, std::size_t n) {
  return farcall::copy(detail::span_of(from, n), detail::span_of(to, n));
}
template <class T>
void copy_sync(const buffer_ptr<T>& from, const buffer_ptr<T>& to, std::size_t n) {
  farcall::copy_sync(detail::span_of(from, n), detail::span_of(to, n));
}

/// Body of the library's main(). On the host, it starts the job and calls the program's main(). On
/// a target, it serves the job. Returns the exit status of the program.
int ham_main(int* argc, char** argv[]);
int ham_main(int argc, char* argv[]);

/// Starts the job in a program that defines HAM_EXPLICIT and has an ordinary main(), which calls
/// ham_init(). Returns true on the host. On a target, serves the job until the job ends, and then
/// returns false. If the job cannot start, prints the reason and exits.
bool ham_init(int* argc, char** argv[]);
bool ham_init(int argc, char* argv[]);
/// Ends the job if this process is the host; has no effect on a target. Programs call this function
/// in each process, as with HAM. Returns 0.
int ham_finalise();

} // namespace ham::offload

template <class F>
  requires(!std::is_trivially_copyable_v<F>)
struct farcall::packer<ham::offload::detail::shipped<F>> {
  using shipped = ham::offload::detail::shipped<F>;

  static void pack(writer& w, const shipped& s) {
    if constexpr (farcall::is_packable_v<F>) {
      w(s.functor);
    } else {
      ham::detail::pack_image(w, s.functor);
    }
  }
  static shipped unpack(reader& r) {
    if constexpr (farcall::is_packable_v<F>) {
      return {r.read<F>()};
    } else {
      return {ham::detail::unpack_image<F>(r)};
    }
  }
};
