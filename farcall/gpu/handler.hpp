// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/host_device.hpp>
#include <farcall/call/bitwise.hpp>
#include <farcall/gpu/code.hpp>
#include <farcall/gpu/device_fn.hpp>
#include <farcall/gpu/request.hpp>
#include <farcall/gpu/team_state.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

/// The receiving side of a remote call on a device. It unpacks the arguments, runs the function,
/// and packs the reply.
namespace farcall::detail {

/// Bytes of the widest memory access of a GPU.
inline constexpr std::size_t widest_access = 16;

/// Returns the alignment of an address that is `place` bytes after an address with the widest
/// alignment.
[[nodiscard]] constexpr std::size_t alignment_behind(std::size_t place) noexcept {
  std::size_t alignment = widest_access;
  while (place % alignment != 0)
    alignment /= 2;
  return alignment;
}

/// Copies `Bytes` bytes between two addresses that are aligned to `Alignment`. It replaces
/// memcpy(), which compilers for GPUs turn into one access per byte if there are more than a few
/// bytes.
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

/// Reads a value of type T from a message, at an address that is aligned to `Alignment`.
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

/// True if a result of type R and parameters of types S can be sent to and from devices.
template <class R, class... S>
inline constexpr bool packs_to_devices = (std::is_void_v<R> || is_bitwise<R>) &&
                                         std::conjunction_v<std::bool_constant<is_bitwise<S>>...>;

template <class F, class R, class... P>
struct device_call {
  using layout = bitwise_layout<std::remove_cvref_t<P>...>;

  static constexpr bool by_all = use_of<F> == device_use::team;
  /// Flags that the device's table of handlers stores together with the code's address.
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

/// Registers a callable for emulated devices.
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

/// Holds the code's address on a GPU. The host reads it once for each job, because only the device
/// knows the address.
template <class Call>
__device__ am::device_handler gpu_address = &Call::run;

[[nodiscard]] std::uint64_t read_gpu_address(const void* symbol);

/// Registers a callable for GPUs, in programs that have GPU code.
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

/// Registers the device code of a callable in each program that calls it.
template <auto Function, device_use Use>
struct call_policy<device_fn_t<Function, Use>> {
  using callable = device_fn_t<Function, Use>;

  template <class R, const entry* What, class... P>
  static void name() {
    static_assert(packs_to_devices<R, std::remove_cvref_t<P>...>,
                  "farcall: a function for devices takes and returns what is trivially copyable: "
                  "numbers, plain structs, remote_span.");
    // Instantiate the code only if the assertion holds. Otherwise, clang would report further
    // errors from the instantiations in this block.
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
