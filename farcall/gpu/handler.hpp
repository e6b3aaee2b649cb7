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

/// The widest access of memory.
inline constexpr std::size_t widest_access = 16;

/// What an address is aligned to that lies `place` behind one that is aligned to the widest access.
[[nodiscard]] constexpr std::size_t alignment_behind(std::size_t place) noexcept {
  std::size_t alignment = widest_access;
  while (place % alignment != 0)
    alignment /= 2;
  return alignment;
}

/// Copies between addresses that are aligned to `Alignment`. Compilers for GPUs make a memcpy() of
/// more than a few bytes into one access for each byte.
template <std::size_t Alignment, std::size_t Bytes>
FARCALL_HOST_DEVICE void copy_aligned(void* to, const void* from) noexcept {
#ifdef FARCALL_ON_GPU
  auto* const target = static_cast<std::byte*>(__builtin_assume_aligned(to, Alignment));
  const auto* const source =
      static_cast<const std::byte*>(__builtin_assume_aligned(from, Alignment));
  constexpr std::size_t whole = Bytes / Alignment * Alignment;
  if constexpr (whole != 0) {
    for (std::size_t at = 0; at < whole; at += Alignment)
      memcpy(target + at, source + at, Alignment);
  }
  if constexpr (whole < Bytes)
    copy_aligned<Alignment / 2, Bytes - whole>(target + whole, source + whole);
#else
  memcpy(to, from, Bytes);
#endif
}

/// A value as it lies in a message, at an address that is aligned to `Alignment`.
template <class T, std::size_t Alignment = 1>
FARCALL_HOST_DEVICE T device_load(const std::byte* from) {
  if constexpr (is_boolean<T>) {
    return static_cast<T>(*from != std::byte{0});
  } else {
    constexpr std::size_t own = alignof(T) < widest_access ? widest_access : alignof(T);
    alignas(own) unsigned char bytes[sizeof(T)] = {};
    if constexpr (packed_bytes<T> != 0) copy_aligned<Alignment, sizeof(T)>(bytes, from);
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

  static constexpr bool by_all = use_of<F> == device_use::team;
  /// In the device's table, beside the address.
  static constexpr std::uint64_t table_bits = by_all ? am::called_by_all : 0;

  static FARCALL_HOST_DEVICE void run(am::device_request& request) {
    const bool is_first = !by_all || am::device_thread() == 0;
    if constexpr (layout::size != 0) {
      if (request.bytes < layout::size) {
        if (is_first) request.fail("the arguments are cut short");
        return;
      }
    }
    if (is_first) request.is_pure = use_of<F> == device_use::pure;
    call(request, is_first, std::index_sequence_for<P...>{});
  }

 private:
  template <std::size_t I>
  static constexpr std::size_t place = layout::offset(I);
  template <class T, std::size_t I>
  static FARCALL_HOST_DEVICE T argument(const std::byte* arguments) {
    return device_load<T, alignment_behind(place<I>)>(arguments + place<I>);
  }

  template <std::size_t... I>
  static FARCALL_HOST_DEVICE void call(am::device_request& request, bool is_first,
                                       std::index_sequence<I...> /*all*/) {
    const F f{};
    [[maybe_unused]] const std::byte* const from = request.arguments;
    if constexpr (std::is_void_v<R>) {
      f(argument<std::remove_cvref_t<P>, I>(from)...);
    } else {
      using result_type = std::remove_cvref_t<R>;
      alignas(widest_access) const result_type result =
          f(argument<std::remove_cvref_t<P>, I>(from)...);
      if (!is_first) return;
      constexpr auto bytes = static_cast<std::uint32_t>(packed_bytes<result_type>);
      if (std::byte* const to = request.reply_of(bytes)) {
        if constexpr (bytes != 0) copy_aligned<am::reply_alignment, bytes>(to, &result);
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
  static std::uint64_t address() {
    return reinterpret_cast<std::uintptr_t>(&Call::run) | Call::table_bits;
  }
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
    return read_gpu_address(reinterpret_cast<const void*>(&gpu_address<Call>)) | Call::table_bits;
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
