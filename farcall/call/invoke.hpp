#pragma once

#include <farcall/am/served_lane.hpp>
#include <farcall/call/callable.hpp>
#include <farcall/call/directory.hpp>
#include <farcall/call/result.hpp>
#include <farcall/call/signature.hpp>

#include <cstring>
#include <tuple>
#include <type_traits>

/// The receiving side of a far call: unpack, release, run, answer.
namespace farcall::detail {

/// Answers with the exception that is being handled.
void answer_exception(am::incoming& request) noexcept;

/// Views into arguments of at most this size are kept on the handler's stack.
inline constexpr std::size_t stack_arguments = 1024;

/// Arguments on the heap, for as long as views refer to them.
class kept_arguments {
 public:
  kept_arguments() noexcept = default;
  kept_arguments(const kept_arguments&) = delete;
  kept_arguments& operator=(const kept_arguments&) = delete;
  ~kept_arguments() { delete[] bytes_; }

  /// Uninitialised, aligned to 16. Once.
  [[nodiscard]] std::byte* allocate(std::size_t bytes) { return bytes_ = new std::byte[bytes]; }

 private:
  std::byte* bytes_ = nullptr;
};

template <class R>
void answer(am::incoming& request, const R& result) {
  if (!request.wants_answer()) return;
  if constexpr (is_bitwise<R>) {
    constexpr auto bytes = packed_bytes<R>;
    if (bytes <= request.largest_answer()) [[likely]] {
      std::byte* to = request.reserve_answer(bytes);
      store_bitwise(to, result);
      request.commit_answer(to, bytes);
      return;
    }
  }
  const std::uint64_t bytes = packed_size(result);
  if (bytes + short_answer_gap <= request.largest_answer()) {
    const auto all = static_cast<std::uint32_t>(bytes + short_answer_gap);
    std::byte* to = request.reserve_answer(all);
    writer w(to + short_answer_gap, bytes);
    w(result);
    request.commit_answer(to, all);
    return;
  }
  std::byte* to = request.reserve_long_answer(bytes);
  try {
    writer w(to, bytes);
    w(result);
  } catch (...) {
    request.cancel_long_answer(to);
    throw;
  }
  request.commit_long_answer(to, bytes);
}

template <class R, class Call>
void run_and_answer(am::incoming& request, Call&& call) {
  if constexpr (std::is_void_v<R>) {
    call();
    if (!request.wants_answer()) return;
    request.commit_answer(request.reserve_answer(0), 0);
  } else {
    answer<std::remove_cvref_t<R>>(request, call());
  }
}

/// Values of S... read from the request, which is released before `use` gets them.
template <class... S, class Use>
void with_arguments(am::incoming& request, Use&& use) {
  if constexpr ((is_bitwise<S> && ...)) {
    using layout = bitwise_layout<S...>;
    if constexpr (layout::size != 0) {
      if (request.bytes() < layout::size) throw_message_too_short(layout::size, request.bytes());
    }
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      std::tuple<S...> values{layout::template load<I>(request.arguments())...};
      request.release();
      use(std::get<I>(values)...);
    }(std::index_sequence_for<S...>{});
  } else {
    const std::byte* from = request.arguments();
    [[maybe_unused]] alignas(16) std::byte near[(has_views<S> || ...) ? stack_arguments : 1];
    kept_arguments far;
    if constexpr ((has_views<S> || ...)) {
      // The ring's space must not stay taken while the handler runs.
      if (request.in_ring()) {
        std::byte* kept = near;
        if (request.bytes() > stack_arguments) {
          kept = far.allocate(request.bytes());
        }
        std::memcpy(kept, from, request.bytes());
        from = kept;
        request.release();
      }
    }
    reader r(from, request.bytes());
    // Braces: read in order.
    std::tuple<S...> values{r.read<S>()...};
    request.release();
    std::apply(use, values);
  }
}

/// A step on the way to R(S...), without which nvcc gives up at functions that take nothing.
template <class R, class... S>
struct function_of {
  using type = R(S...);
};

/// One callable as peers know it: F with a result R for parameters P.
template <class F, class R, class... P>
struct far_call {
  static void run(am::incoming& request, const void* context) noexcept {
    const auto* const c = static_cast<const call_context*>(context);
    const context_scope scope(c);
    try {
      if constexpr (is_function_pointer<F>::value) {
        const any_function found = c->functions->function_for({request.extra()});
        if (found == nullptr) return request.answer_unknown();
        with_arguments<typename travelling<P>::type...>(request, [&](auto&... values) {
          const auto f = reinterpret_cast<typename is_function_pointer<F>::plain>(found);
          run_and_answer<R>(request, [&]() -> R { return f(static_cast<P&&>(values)...); });
        });
      } else {
        with_arguments<F, typename travelling<P>::type...>(request, [&](F& f, auto&... values) {
          run_and_answer<R>(request, [&]() -> R { return f(static_cast<P&&>(values)...); });
        });
      }
    } catch (...) {
      answer_exception(request);
    }
  }

  static entry self;
};

template <class F, class R, class... P>
entry far_call<F, R, P...>::self{
    type_name<F>(),
    &callable_text<F, typename function_of<typename travelling_result<R>::type,
                                           typename travelling<P>::type...>::type>,
    &far_call::run, entry_compiler};

} // namespace farcall::detail
