// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/invoke.hpp>
#include <farcall/call/reply.hpp>

#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>

/// The calling side of a remote call. It finds the key, writes the arguments into the ring, and
/// commits the request.
namespace farcall::detail {

/// How a call is sent, and how its reply is handled.
enum class call_mode : std::uint8_t {
  awaited, ///< the call has a pending call, which the caller holds
  posted,  ///< the caller does not wait for the reply
  tried,   ///< like `posted`, but the call is not sent if sending would block
  /// Like `awaited`, but requester::stop() also asks the peer to stop the call; the peer must
  /// accept stops.
  stoppable,
};

/// True for modes in which the caller does not wait for the reply.
template <call_mode Mode>
inline constexpr bool is_posted = Mode == call_mode::posted || Mode == call_mode::tried;

/// Result of the functions that send a call. In the mode `tried`, it is true if the call was sent.
/// In the modes `awaited` and `stoppable`, it is the call's pending call. In the mode `posted`, it
/// is null.
template <call_mode Mode>
using sent_call = std::conditional_t<Mode == call_mode::tried, bool, am::pending_call*>;
template <call_mode Mode>
[[nodiscard]] sent_call<Mode> call_was_sent(am::pending_call* slot) noexcept {
  if constexpr (Mode == call_mode::tried) {
    return true;
  } else {
    return slot;
  }
}

/// Size, in bytes, of the prefix that precedes the arguments of a call.
template <call_mode Mode>
inline constexpr std::uint32_t prefix_of =
    Mode == call_mode::stoppable ? sizeof(am::stoppable_prefix) : 0;

/// Writes a stoppable_prefix with a new id to `to`, in front of the arguments, and commits the
/// request like requester::commit_request().
inline void commit_stoppable(am::requester& l, std::byte* to, std::uint32_t bytes,
                             am::handler_key key, am::pending_call& slot, function_handle handle,
                             record_kind kind = record_kind::stoppable_request) noexcept {
  const am::stoppable_prefix prefix{l.owner().next_stoppable_id(), 0};
  std::memcpy(to, &prefix, sizeof prefix);
  l.commit_request(to, bytes, key, &slot, handle.value, kind);
  l.make_stoppable(slot, prefix.id);
}

/// Sends a call like send(), even if the lane is full or the arguments do not fit a record.
/// `fill(std::byte* to)` writes the arguments, which take `bytes` bytes.
template <call_mode Mode, class R, class Fill>
sent_call<Mode> send_filled(am::requester& l, am::handler_key key, function_handle handle,
                            time_point deadline, std::uint64_t bytes, const Fill& fill) {
  constexpr bool is_stoppable = Mode == call_mode::stoppable;
  constexpr std::uint32_t prefix_bytes = prefix_of<Mode>;

  std::byte* block = nullptr;
  if (bytes > l.max_arguments() - prefix_bytes) [[unlikely]] {
    l.require_long_arguments(bytes);
    block = l.owner().allocate_block(bytes);
    try {
      fill(block);
    } catch (...) {
      l.owner().release_block(block);
      throw;
    }
  }

  l.guard().lock();
  am::pending_call* slot = nullptr;
  std::byte* to = nullptr;
  try {
    // If the arguments are in a heap block, take a pending call even for a posted call. finish() of
    // that pending call releases the block when the reply arrives.
    if (!is_posted<Mode> || block != nullptr) slot = &l.take_call(&read_reply<R>);
    const auto inline_bytes = static_cast<std::uint32_t>(
        prefix_bytes + (block != nullptr ? sizeof(am::rendezvous_body) : bytes));
    to = l.try_reserve_request(inline_bytes);
    if constexpr (Mode == call_mode::tried) {
      if (to == nullptr && !l.failure()) {
        if (slot != nullptr) l.return_call(*slot);
        l.guard().unlock();
        if (block != nullptr) l.owner().release_block(block);
        return false;
      }
    } else if (to == nullptr) [[unlikely]] {
      // If wait_for_space() throws, it has released the guard. Lock the guard again in that case,
      // because the catch block below unlocks it.
      struct relock {
        am::requester& l;
        int before = std::uncaught_exceptions();
        ~relock() {
          if (std::uncaught_exceptions() > before) l.guard().lock();
        }
      } const relock_on_throw{l};
      to = l.owner().wait_for_space(l, inline_bytes, deadline);
    }
    if (to != nullptr) [[likely]] {
      if (block != nullptr) {
        const am::rendezvous_body where{reinterpret_cast<std::uintptr_t>(block), bytes};
        std::memcpy(to + prefix_bytes, &where, sizeof where);
      } else {
        fill(to + prefix_bytes);
      }
      if constexpr (is_stoppable) {
        commit_stoppable(l, to, inline_bytes, key, *slot, handle,
                         block != nullptr ? record_kind::stoppable_rendezvous
                                          : record_kind::stoppable_request);
      } else {
        l.commit_request(to, inline_bytes, key, slot, handle.value,
                         block != nullptr ? record_kind::request_rendezvous : record_kind::request);
      }
      if (block != nullptr) l.attach_block(*slot, block);
    } else {
      // The lane has failed. End the pending call with the error of this failure; a posted call
      // throws the error instead.
      if (block != nullptr) l.owner().release_block(std::exchange(block, nullptr));
      if constexpr (is_posted<Mode>) std::rethrow_exception(l.failure());
      l.fail_call(*slot, l.failure());
    }
  } catch (...) {
    if (to == nullptr && block != nullptr) l.owner().release_block(block);
    if (slot != nullptr) l.return_call(*slot);
    l.guard().unlock();
    throw;
  }
  l.guard().unlock();
  if constexpr (is_posted<Mode>) {
    if (slot != nullptr) l.abandon(*std::exchange(slot, nullptr));
  }
  return call_was_sent<Mode>(slot);
}

/// Packs the arguments and sends them with send_filled().
template <call_mode Mode, class R, class... S>
sent_call<Mode> send_slow(am::requester& l, am::handler_key key, function_handle handle,
                          time_point deadline, const S&... args) {
  if constexpr ((is_bitwise<S> && ...)) {
    using layout = bitwise_layout<S...>;
    return send_filled<Mode, R>(l, key, handle, deadline, layout::size,
                                [&](std::byte* to) { layout::store(to, args...); });
  } else {
    const std::uint64_t bytes = packed_size(args...);
    return send_filled<Mode, R>(l, key, handle, deadline, bytes, [&](std::byte* to) {
      writer w(to, bytes);
      w(args...);
    });
  }
}

/// Sends `handle` and the packed `args` to the handler with the key `key`. The pending call becomes
/// ready when the reply, a value of type R, has arrived, or when the lane has failed. Returns null
/// for a posted call.
///
/// Waits only if the lane is full. A `tried` call does not wait, and is not sent if the lane is
/// full. Throws timeout if the lane stays full until `deadline`, out_of_memory if the heap has no
/// space for long arguments, error if the peer accepts no rendezvous requests, and what packing
/// throws.
template <call_mode Mode, class R, class... S>
sent_call<Mode> send(am::requester& l, am::handler_key key, function_handle handle,
                     time_point deadline, const S&... args) {
  if constexpr ((is_bitwise<S> && ...)) {
    using layout = bitwise_layout<S...>;
    constexpr std::uint32_t bytes = prefix_of<Mode> + layout::size;
    if constexpr (bytes <= am::short_arguments) {
      if (const biased_lock::as_owner held(l.guard()); held) [[likely]] {
        am::pending_call* slot = nullptr;
        if constexpr (Mode == call_mode::stoppable) {
          std::byte* const to = l.has_free_call() ? l.try_reserve_request(bytes) : nullptr;
          if (to != nullptr) [[likely]] {
            slot = &l.take_call(&read_reply<R>);
            layout::store(to + prefix_of<Mode>, args...);
            commit_stoppable(l, to, bytes, key, *slot, handle);
            return slot;
          }
        } else {
          const auto fill = [&](std::byte* to) { layout::store(to, args...); };
          if (l.try_send_short<is_posted<Mode>>(bytes, key, handle.value, &read_reply<R>, fill,
                                                slot)) [[likely]] {
            return call_was_sent<Mode>(slot);
          }
        }
      }
    }
  }
  return send_slow<Mode, R>(l, key, handle, deadline, args...);
}

/// Sends a call of a callable of type F with the given signature.
template <class F, class Signature>
struct caller;

template <class F, class R, class... P>
struct caller<F, signature<R, P...>> {
  using result = typename packed_result<R>::type;
  using far = remote_call<F, R, P...>;

  template <call_mode Mode>
  static sent_call<Mode> call(am::requester& l, const call_context& context, time_point deadline,
                              const F& f, const typename packed_parameter<P>::type&... args) {
    call_policy<F>::template name<R, &far::self, P...>();
    if constexpr (is_function_pointer<F>::value) {
      const auto function = reinterpret_cast<any_function>(f);
      const am::handler_key key = key_resolver::key_for(l, far::self, context, deadline, function);
      const function_handle handle = key_resolver::handle_for(l, function, context, deadline);
      return send<Mode, result>(l, key, handle, deadline, args...);
    } else {
      const am::handler_key key = key_resolver::key_for(l, far::self, context, deadline);
      return send<Mode, result>(l, key, {}, deadline, f, args...);
    }
  }
};

/// The type under which F is registered. A function becomes a pointer type without noexcept,
/// because peers need not agree on noexcept.
template <class F>
struct plain_callable {
  using type = std::decay_t<F>;
};
template <class F>
  requires(is_function_pointer<std::decay_t<F>>::value)
struct plain_callable<F> {
  using type = typename is_function_pointer<std::decay_t<F>>::plain;
};

template <class F, class... A>
using caller_for = caller<typename plain_callable<F>::type,
                          typename signature_of<typename plain_callable<F>::type, A...>::type>;

} // namespace farcall::detail
