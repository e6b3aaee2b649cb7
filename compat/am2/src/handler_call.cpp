// SPDX-License-Identifier: Apache-2.0
#include "handler_call.hpp"

#include "message.hpp"

#include <array>
#include <utility>

namespace farcall::am2 {
namespace {

template <std::size_t>
using argument = std::int32_t;

// Attribute that disables UBSan's check of function types. Programs register handlers with more or
// fewer parameters than their messages have arguments, and UBSan would report these calls.
#ifdef __clang__
#define AM2_CALLS_ANY_TYPE __attribute__((no_sanitize("function")))
#else
#define AM2_CALLS_ANY_TYPE
#endif

template <std::size_t... I>
AM2_CALLS_ANY_TYPE void run_short(amx_handler_fn_t f, void* token, const std::int32_t* a,
                                  std::index_sequence<I...> /*count*/) {
  reinterpret_cast<void (*)(void*, argument<I>...)>(f)(token, a[I]...);
}
template <std::size_t... I>
AM2_CALLS_ANY_TYPE void run_long(amx_handler_fn_t f, void* token, void* payload, std::size_t bytes,
                                 const std::int32_t* a, std::index_sequence<I...> /*count*/) {
  reinterpret_cast<void (*)(void*, void*, std::size_t, argument<I>...)>(f)(token, payload, bytes,
                                                                           a[I]...);
}

using short_call = void (*)(amx_handler_fn_t, void*, const std::int32_t*);
using long_call = void (*)(amx_handler_fn_t, void*, void*, std::size_t, const std::int32_t*);
constexpr std::size_t counts = max_arguments + 1;

template <std::size_t... N>
constexpr std::array<short_call, counts> make_short_calls(std::index_sequence<N...> /*counts*/) {
  return {[](amx_handler_fn_t f, void* token, const std::int32_t* a) {
    run_short(f, token, a, std::make_index_sequence<N>());
  }...};
}
template <std::size_t... N>
constexpr std::array<long_call, counts> make_long_calls(std::index_sequence<N...> /*counts*/) {
  return {
      [](amx_handler_fn_t f, void* token, void* payload, std::size_t bytes, const std::int32_t* a) {
        run_long(f, token, payload, bytes, a, std::make_index_sequence<N>());
      }...};
}

constexpr auto short_calls = make_short_calls(std::make_index_sequence<counts>());
constexpr auto long_calls = make_long_calls(std::make_index_sequence<counts>());

} // namespace

void call_short(amx_handler_fn_t f, void* token, const std::int32_t* arguments,
                int count) noexcept {
  short_calls[static_cast<std::size_t>(count)](f, token, arguments);
}

void call_with_payload(amx_handler_fn_t f, void* token, void* payload, std::size_t bytes,
                       const std::int32_t* arguments, int count) noexcept {
  long_calls[static_cast<std::size_t>(count)](f, token, payload, bytes, arguments);
}

} // namespace farcall::am2
