#pragma once

#include <farcall/base/error.hpp>
#include <farcall/gpu/call_host.hpp>
#include <farcall/gpu/handler.hpp>
#include <farcall/offload/call.hpp>
#include <farcall/offload/host_device.hpp>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

/// What functions for devices can do besides computing. On ordinary nodes it works, too.
namespace farcall {

/// A function that also runs on devices has failed: device::fail() on an ordinary node.
class device_error : public error {
 public:
  using error::error;
};

namespace detail {

#ifdef __CUDACC__
/// The host's key for a function, on a GPU.
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
  static_assert(layout::size <= am::largest_host_call,
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
    // The callable itself comes first, and takes no bytes.
    (store<layout::offset(I + 1)>(to, args), ...);
  }
};

template <class F>
using host_call_of = host_call<F, typename signature_of<F>::type>;

} // namespace detail

namespace device {

/// The team that the calling function is run by; null on ordinary nodes. A kernel that was launched
/// has none, and faults here, which is the exception that it throws on the emulated device: nobody
/// could be told otherwise.
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

/// Nanoseconds of a clock that only goes forward, to measure what a function takes. A GPU's goes in
/// steps, of a microsecond on some.
[[nodiscard]] FARCALL_HOST_DEVICE inline std::uint64_t now() noexcept { return am::device_now(); }

/// Calls `f(args...)`, a function of the host's program as fc::fn<f>, from a device, and waits for
/// its result. Called by one thread of a team at a time, as the first. The host serves it on a
/// thread that waits for a reply, or else within about a millisecond. When it throws, or does not
/// reply for 30 s, the call that the team serves fails with that text, and the result here is
/// zeroes. 240 bytes of arguments at most. On ordinary nodes a call of the host as any other.
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

/// The same without waiting, for a function whose result nobody needs: a trace, a count. On
/// ordinary nodes throws as post() does.
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

/// Makes the call that is being served fail: it throws remote_error with `text`, of which a device
/// keeps 184 characters, on the node that made it. A device goes on and returns as usual, since
/// nothing can be thrown there; ordinary nodes throw device_error.
FARCALL_HOST_DEVICE inline void fail(const char* text) {
  am::device_team_state* const team = serving_team();
#ifndef FARCALL_ON_GPU
  if (team == nullptr) throw device_error(text);
#endif
  team->request.fail(text);
}

} // namespace device
} // namespace farcall
