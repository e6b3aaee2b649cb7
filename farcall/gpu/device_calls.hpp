// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/call.hpp>
#include <farcall/async/host_device.hpp>
#include <farcall/base/error.hpp>
#include <farcall/gpu/call_host.hpp>
#include <farcall/gpu/handler.hpp>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

/// Operations for functions that run on devices: calls to the host, errors, and a clock. Ordinary
/// nodes have these operations, too.
namespace farcall {

/// Exception that device::fail() throws in a function that runs on an ordinary node. Functions for
/// devices call fail() to report errors.
class device_error : public error {
 public:
  using error::error;
};

namespace detail {

#ifdef __CUDACC__
/// Variable on a GPU that holds the key by which the host knows the function.
template <class Far>
__device__ std::uint32_t gpu_key_of = 0;

template <class Far>
struct gpu_caller {
  static gpu_key self;
};
template <class Far>
gpu_key gpu_caller<Far>::self{Far::self, reinterpret_cast<const void*>(&gpu_key_of<Far>)};
#endif

template <class F, class Signature>
struct host_call;

template <class F, class R, class... P>
struct host_call<F, signature<R, P...>> {
  using far = remote_call<F, R, P...>;
  using layout = bitwise_layout<F, std::remove_cvref_t<P>...>;
  using result = std::remove_cvref_t<R>;

  static_assert(packs_to_devices<R, std::remove_cvref_t<P>...>,
                "farcall: a device passes to the host, and gets, what is trivially copyable.");
  static_assert(layout::size <= am::max_host_call,
                "farcall: a device passes the host 240 bytes of arguments at most; pass a "
                "remote_span of more.");

  [[nodiscard]] static FARCALL_HOST_DEVICE am::handler_key key() {
#ifdef FARCALL_ON_GPU
    return gpu_key_of<far>;
#else
#ifdef __CUDACC__
    (void)&gpu_caller<far>::self;
#endif
    return key_resolver::own_key(far::self);
#endif
  }

  template <std::size_t Place, class T>
  static FARCALL_HOST_DEVICE void store([[maybe_unused]] std::byte* arguments, const T& value) {
    constexpr std::size_t alignment = std::min(alignment_behind(Place), alignof(T));
    if constexpr (packed_bytes<T> != 0)
      copy_aligned<alignment, sizeof(T)>(arguments + Place, &value);
  }

  static FARCALL_HOST_DEVICE result run(am::device_team_state& s, bool wants_reply,
                                        const std::remove_cvref_t<P>&... args) {
    am::host_request request;
    store_all(request.arguments(), std::index_sequence_for<P...>{}, args...);
    constexpr auto bytes = static_cast<std::uint32_t>(layout::size);
    if constexpr (std::is_void_v<R>) {
      (void)am::call_host(s, request, key(), bytes, wants_reply, 0);
    } else {
      constexpr auto reply_bytes = static_cast<std::uint32_t>(packed_bytes<result>);
      const std::byte* const reply =
          am::call_host(s, request, key(), bytes, wants_reply, reply_bytes);
      alignas(result) unsigned char none[sizeof(result)] = {};
      if (reply == nullptr || !wants_reply) return *reinterpret_cast<const result*>(none);
      return device_load<result, am::reply_alignment>(reply);
    }
  }

 private:
  template <std::size_t... I>
  static FARCALL_HOST_DEVICE void store_all([[maybe_unused]] std::byte* to,
                                            std::index_sequence<I...> /*all*/,
                                            const std::remove_cvref_t<P>&... args) {
    // Start with argument 1, because argument 0 is the callable itself, which takes no bytes.
    (store<layout::offset(I + 1)>(to, args), ...);
  }
};

template <class F>
using host_call_of = host_call<F, typename signature_of<F>::type>;

} // namespace detail

namespace device {

/// Returns the team that runs the calling function, or null on an ordinary node. A launched kernel
/// has no team, and no caller that would get an error. Therefore serving_team() traps in a launched
/// kernel, and throws cuda::emulated_fault if the kernel runs on an emulated device.
[[nodiscard]] FARCALL_HOST_DEVICE inline am::device_team_state* serving_team() {
  am::device_team_state* const team = am::current_device_team();
#ifdef FARCALL_ON_GPU
  if (team == nullptr) cuda::trap();
#else
  if (team == nullptr && cuda::thread_team::current != nullptr)
    throw cuda::emulated_fault{
        "a launched function has called the host, or fail(), which only calls can; it can write to "
        "a buffer"};
#endif
  return team;
}

/// Returns the time of a steady clock in nanoseconds, for measurements of a function's run time.
/// The clock of some GPUs advances in steps of a microsecond.
[[nodiscard]] FARCALL_HOST_DEVICE inline std::uint64_t now() noexcept { return am::device_now(); }

/// Calls `f(args...)`, a function of the host's program named as fc::fn<f>, from a device, and
/// waits for its result. One thread of a team at a time may call it, for instance the first. If a
/// thread of the host is waiting for a reply, this thread runs the function. Otherwise, the host
/// starts the function within about a millisecond. If the function throws, or does not reply within
/// 30 s, then call_host() returns zeroes, and the call that the team is serving fails with the
/// exception's text or a text about the time. The arguments may have 240 bytes at most. On ordinary
/// nodes this is an ordinary call to the host.
template <class F, class... A>
FARCALL_HOST_DEVICE auto call_host(F f, const A&... args) {
  static_assert(detail::is_fn<F>, "farcall: a device calls the host's functions as fc::fn<f>");
  using call = detail::host_call_of<F>;
  am::device_team_state* const team = serving_team();
#ifndef FARCALL_ON_GPU
  if (team == nullptr) return sync(host(), f, args...);
#endif
  (void)f;
  return call::run(*team, true, args...);
}

/// Calls a function of the host without waiting for its end. Meant for functions whose result is
/// not needed, such as traces and counters. On ordinary nodes throws the exceptions of post().
template <class F, class... A>
FARCALL_HOST_DEVICE void post_host(F f, const A&... args) {
  static_assert(detail::is_fn<F>, "farcall: a device calls the host's functions as fc::fn<f>");
  using call = detail::host_call_of<F>;
  am::device_team_state* const team = serving_team();
#ifndef FARCALL_ON_GPU
  if (team == nullptr) return post(host(), f, args...);
#endif
  (void)f;
  static_cast<void>(call::run(*team, false, args...));
}

/// Reports an error from a function. On a device, the call that the team is serving ends with
/// remote_error and `text` on the node that made the call. A device keeps at most 184 characters of
/// the text. The function itself continues and returns as usual, since devices have no exceptions.
/// On an ordinary node, fail() throws device_error.
FARCALL_HOST_DEVICE inline void fail(const char* text) {
  am::device_team_state* const team = serving_team();
#ifndef FARCALL_ON_GPU
  if (team == nullptr) throw device_error(text);
#endif
  team->request.fail(text);
}

} // namespace device
} // namespace farcall
