#pragma once

#include <ham/functor/buffer.hpp>
#include <ham/functor/function.hpp>
#include <ham/misc/constants.hpp>
#include <ham/misc/traits.hpp>
#include <ham/offload/future.hpp>
#include <ham/offload/runtime.hpp>

#include <farcall/offload/in_order.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

namespace ham::offload {

using net::buffer_ptr;
using net::node_descriptor;

namespace detail {

/// A functor on its way. Those that do not travel otherwise go as bytes, as HAM sent all of them.
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

/// Pointers of the target travel in functors, as whatever else is in them.
template <class F>
inline constexpr bool farcall::may_hold_pointers<ham::offload::detail::shipped<F>> = true;

namespace ham::offload {
namespace detail {

template <class F>
using functor_of = std::remove_cvref_t<F>;

/// As everything on a node happened one after the other in HAM over MPI.
[[nodiscard]] inline farcall::ordered_place place_of(node_t node) {
  return farcall::in_order(runtime::instance().node(node));
}

/// What a call takes of a functor that it is given: a copy, where there can be one. HAM moves from
/// all of them.
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

/// Runs the functor on `node` and returns at once with the future of its result.
template <class F>
future<typename detail::functor_of<F>::result_type> async(node_t node, F&& functor) {
  return farcall::async(
      detail::place_of(node),
      detail::shipped<detail::functor_of<F>>{static_cast<detail::taken_functor<F>>(functor)});
}

/// Runs the functor on `node` and waits for its result.
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

/// Runs the functor on `node`; nothing comes back.
template <class F>
void ping(node_t node, F&& functor) {
  farcall::post(detail::place_of(node), detail::shipped<detail::functor_of<F>>{
                                            static_cast<detail::taken_functor<F>>(functor)});
}

/// Memory for `n` elements on `node`, uninitialised, freed by free(). Throws
/// farcall::out_of_memory.
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

/// Copies `n` elements to another node, or to this one. The source may be const.
template <class T>
future<void> put(const T* local, const buffer_ptr<T>& remote, std::size_t n) {
  return farcall::put(std::span<const T>(local, n), detail::span_of(remote, n));
}
template <class T>
void put_sync(const T* local, const buffer_ptr<T>& remote, std::size_t n) {
  farcall::put_sync(std::span<const T>(local, n), detail::span_of(remote, n));
}

/// Copies `n` elements from another node, or from this one.
template <class T>
future<void> get(const buffer_ptr<T>& remote, T* local, std::size_t n) {
  return farcall::get(detail::span_of(remote, n), std::span<T>(local, n));
}
template <class T>
void get_sync(const buffer_ptr<T>& remote, T* local, std::size_t n) {
  farcall::get_sync(detail::span_of(remote, n), std::span<T>(local, n));
}

/// Copies between any two nodes, directly.
template <class T>
future<void> copy(const buffer_ptr<T>& from, const buffer_ptr<T>& to, std::size_t n) {
  return farcall::copy(detail::span_of(from, n), detail::span_of(to, n));
}
template <class T>
void copy_sync(const buffer_ptr<T>& from, const buffer_ptr<T>& to, std::size_t n) {
  farcall::copy_sync(detail::span_of(from, n), detail::span_of(to, n));
}

/// What the injected main() calls: on the host the program's main(), on a target the service of the
/// job. The exit status of the program.
int ham_main(int* argc, char** argv[]);
int ham_main(int argc, char* argv[]);

/// For programs with a main() of their own (HAM_EXPLICIT): true on the host; on a target false,
/// once the job has ended. When the job cannot start, says why and exits.
bool ham_init(int* argc, char** argv[]);
bool ham_init(int argc, char* argv[]);
/// Ends the job. To be called in every process; 0.
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
