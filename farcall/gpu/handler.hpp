#pragma once

#include <farcall/call/bitwise.hpp>
#include <farcall/gpu/code.hpp>
#include <farcall/gpu/device_fn.hpp>
#include <farcall/gpu/request.hpp>
#include <farcall/gpu/team_state.hpp>
#include <farcall/offload/host_device.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

/// The receiving side of a remote call on a device: unpack, run, reply.
namespace farcall::detail {

/// A value as it lies in a message, which need not be aligned.
template <class T>
FARCALL_HOST_DEVICE T device_load(const std::byte* from) {
  if constexpr (is_boolean<T>) {
    return static_cast<T>(*from != std::byte{0});
  } else {
    alignas(T) unsigned char bytes[sizeof(T)] = {};
    if constexpr (packed_bytes<T> != 0) memcpy(bytes, from, sizeof(T));
    return *reinterpret_cast<const T*>(bytes);
  }
}

/// Whether values of these types go to and from devices.
template <class R, class... S>
inline constexpr bool packs_to_devices = (std::is_void_v<R> || is_bitwise<R>) &&
                                         std::conjunction_v<std::bool_constant<is_bitwise<S>>...>;

template <class F, class R, class... P>
struct device_call {
  using layout = bitwise_layout<std::remove_cvref_t<P>...>;

  static FARCALL_HOST_DEVICE void run(am::device_request& request) {
    constexpr bool by_all = use_of<F> == device_use::team;
    const bool is_first = am::device_thread() == 0;
    if constexpr (layout::size != 0) {
      if (request.bytes < layout::size) {
        if (is_first) request.fail("the arguments are cut short");
        return;
      }
    }
    if (is_first) request.is_pure = use_of<F> == device_use::pure;
    // Written and read by the first thread alone: the others do not run the function then.
    if (is_first && !by_all) request.is_by_all = false;
    if (by_all || is_first) call(request, is_first, std::index_sequence_for<P...>{});
  }

 private:
  template <std::size_t I>
  static constexpr std::size_t place = layout::offset(I);

  template <std::size_t... I>
  static FARCALL_HOST_DEVICE void call(am::device_request& request, bool is_first,
                                       std::index_sequence<I...> /*all*/) {
    const F f{};
    [[maybe_unused]] const std::byte* const from = request.arguments;
    if constexpr (std::is_void_v<R>) {
      f(device_load<std::remove_cvref_t<P>>(from + place<I>)...);
    } else {
      using result_type = std::remove_cvref_t<R>;
      const result_type result = f(device_load<std::remove_cvref_t<P>>(from + place<I>)...);
      if (!is_first || request.outcome != am::device_outcome::replied) return;
      constexpr auto bytes = static_cast<std::uint32_t>(packed_bytes<result_type>);
      if (std::byte* const to = request.reply_of(bytes)) {
        if constexpr (bytes != 0) memcpy(to, &result, bytes);
      } else {
        request.fail(
            "the result is longer than a quarter of the job's lane_bytes; write it to a buffer");
      }
    }
  }
};

/// What makes a callable known to emulated devices.
template <class Call, const entry* What>
struct thread_code {
  static std::uint64_t address() { return reinterpret_cast<std::uintptr_t>(&Call::run); }
  static device_code self;
};
template <class Call, const entry* What>
// NOLINTNEXTLINE(cppcoreguidelines-interfaces-global-init): of the entry only the address is kept
device_code thread_code<Call, What>::self{device_code::kind::threads, *What, &thread_code::address};

#ifdef __CUDACC__

/// Where a GPU has the code. Read once for each job: an address is only known there.
template <class Call>
__device__ am::device_handler gpu_address = &Call::run;

[[nodiscard]] std::uint64_t read_gpu_address(const void* symbol);

/// The same for GPUs, in programs with such code.
template <class Call, const entry* What>
struct gpu_code {
  static std::uint64_t address() {
    return read_gpu_address(reinterpret_cast<const void*>(&gpu_address<Call>));
  }
  static device_code self;
};
template <class Call, const entry* What>
device_code gpu_code<Call, What>::self{device_code::kind::gpu, *What, &gpu_code::address};

#endif

/// Makes the program have the code wherever the callable is called.
template <auto Function, device_use Use>
struct call_policy<device_fn_t<Function, Use>> {
  using callable = device_fn_t<Function, Use>;

  template <class R, const entry* What, class... P>
  static void name() {
    static_assert(packs_to_devices<R, std::remove_cvref_t<P>...>,
                  "farcall: a function for devices takes and returns what is trivially copyable: "
                  "numbers, plain structs, remote_span.");
    // Or else clang goes on to complain about what lies deeper.
    if constexpr (packs_to_devices<R, std::remove_cvref_t<P>...>) {
      using call = device_call<callable, R, P...>;
      (void)&thread_code<call, What>::self;
#ifdef __CUDACC__
      (void)&gpu_code<call, What>::self;
#endif
    }
  }
};

} // namespace farcall::detail
