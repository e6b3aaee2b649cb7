// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/responder.hpp>
#include <farcall/call/callable.hpp>
#include <farcall/call/key_resolver.hpp>
#include <farcall/call/result.hpp>
#include <farcall/call/signature.hpp>

#include <cstring>
#include <tuple>
#include <type_traits>

/// The receiving side of a remote call. It unpacks the arguments, releases the request, runs the
/// callable, and replies.
namespace farcall::detail {

/// Replies with the exception that is being handled. Call in a catch block.
void reply_exception(am::request_context& request) noexcept;

template <class R>
struct reply_of;
template <class T>
struct reply_of<given_by_reply<T>> {
  using type = reply<T>;
};

/// Maximum size, in bytes, of arguments with views that are copied to the handler's stack. Larger
/// ones are copied to the heap.
inline constexpr std::size_t stack_arguments = 2048;

/// Copy of the arguments on the heap, kept as long as views into them exist.
class kept_arguments {
 public:
  kept_arguments() noexcept = default;
  kept_arguments(const kept_arguments&) = delete;
  kept_arguments& operator=(const kept_arguments&) = delete;
  ~kept_arguments() { delete[] bytes_; }

  /// Allocates uninitialised memory that is aligned to 16. Call once.
  [[nodiscard]] std::byte* allocate(std::size_t bytes) { return bytes_ = new std::byte[bytes]; }

 private:
  std::byte* bytes_ = nullptr;
};

template <class R>
void send_reply(am::request_context& request, const R& result) {
  if (!request.wants_reply()) return;
  if constexpr (is_bitwise<R>) {
    constexpr auto bytes = packed_bytes<R>;
    if constexpr (bytes <= am::request_context::always_short) {
      const auto store = [&](std::byte* to) noexcept { store_bitwise(to, result); };
      if (request.try_reply_short(bytes, store)) [[likely]]
        return;
    }
    if (bytes <= request.max_reply()) [[likely]] {
      std::byte* to = request.reserve_reply(bytes);
      store_bitwise(to, result);
      request.commit_reply(to, bytes);
      return;
    }
  }
  const std::uint64_t bytes = packed_size(result);
  if (bytes + short_reply_gap <= request.max_reply()) {
    const auto all = static_cast<std::uint32_t>(bytes + short_reply_gap);
    std::byte* to = request.reserve_reply(all);
    writer w(to + short_reply_gap, bytes);
    w(result);
    request.commit_reply(to, all);
    return;
  }
  std::byte* to = request.reserve_rendezvous_reply(bytes);
  try {
    writer w(to, bytes);
    w(result);
  } catch (...) {
    request.cancel_rendezvous_reply(to);
    throw;
  }
  request.commit_rendezvous_reply(to, bytes);
}

template <class R, class Call>
void run_and_reply(am::request_context& request, Call&& call) {
  if constexpr (std::is_void_v<R>) {
    call();
    if (!request.wants_reply()) return;
    if (request.try_reply_short(0, [](std::byte* /*to*/) noexcept {})) [[likely]]
      return;
    request.commit_reply(request.reserve_reply(0), 0);
  } else if constexpr (comes_later<R>) {
    later_result<R>::give(request, call());
  } else {
    send_reply<std::remove_cvref_t<R>>(request, call());
  }
}

/// Calls `f` with the values, and replies with its result, which has the type R.
template <class R, class... P, class F, class... S>
void call_and_reply(am::request_context& request, F& f, S&... values) {
  if constexpr (is_given_by_reply<R>) {
    am::deferred_reply later = request.defer();
    am::reply_catcher catcher(later);
    try {
      f(typename reply_of<R>::type(std::move(later)), static_cast<P&&>(values)...);
    } catch (...) {
      if (!catcher.caught()) throw;
      catcher.caught()->send([](am::request_context& late) { reply_exception(late); });
    }
  } else {
    run_and_reply<R>(request, [&]() -> R { return f(static_cast<P&&>(values)...); });
  }
}

/// Reads values of the types S... from the request, releases the request, and passes the values to
/// `use`.
template <class... S, class Use>
void with_arguments(am::request_context& request, Use&& use) {
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
      // Copy the arguments, so that the ring's space is free while the handler runs.
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
    std::tuple<S...> values = read_message<S...>(from, request.bytes(), [](reader r) {
      // Use braces, which guarantee that the values are read in order.
      std::tuple<S...> read{r.read<S>()...};
      require_end(r);
      return read;
    });
    request.release();
    std::apply(use, values);
  }
}

/// Function type R(S...). Written as a member of a struct, because nvcc fails for functions without
/// parameters if R(S...) is used directly.
template <class R, class... S>
struct function_of {
  using type = R(S...);
};

/// Code with which a node runs a callable for a peer. The callable has the type F, the parameters P
/// and the result R.
template <class F, class R, class... P>
struct remote_call {
  static void run(am::request_context& request) noexcept {
    const call_context* const context = request.context();
    const context_scope scope(context);
    try {
      if constexpr (is_function_pointer<F>::value) {
        const any_function found = context->functions->function_for({request.extra()});
        if (found == nullptr) return request.reply_unknown();
        with_arguments<typename packed_parameter<P>::type...>(request, [&](auto&... values) {
          const auto f = reinterpret_cast<typename is_function_pointer<F>::plain>(found);
          call_and_reply<R, P...>(request, f, values...);
        });
      } else {
        with_arguments<F, typename packed_parameter<P>::type...>(
            request,
            [&](F& f, auto&... values) { call_and_reply<R, P...>(request, f, values...); });
      }
    } catch (...) {
      reply_exception(request);
    }
  }

  static entry self;
};

template <class F, class R, class... P>
entry remote_call<F, R, P...>::self{
    type_name<F>(),
    &callable_text<F, typename function_of<typename packed_result<R>::type,
                                           typename packed_parameter<P>::type...>::type>,
    &remote_call::run, entry_compiler};

} // namespace farcall::detail
