#pragma once

#include <farcall/call/invoke.hpp>
#include <farcall/call/reply.hpp>

#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>

/// The calling side of a remote call: key, arguments into the ring, commit.
namespace farcall::detail {

/// What becomes of a call once it is sent.
enum class call_mode : std::uint8_t {
  awaited,   ///< somebody holds its pending call
  posted,    ///< nobody waits for it
  tried,     ///< as posted, and not sent where that would have to wait
  stoppable, ///< as awaited; requester::stop() also tells the peer, which takes stops
};

/// Nobody waits for such a call.
template <call_mode Mode>
inline constexpr bool is_posted = Mode == call_mode::posted || Mode == call_mode::tried;

/// Whether a call was sent that is tried; of others the pending call.
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

/// What precedes the arguments of such a call.
template <call_mode Mode>
inline constexpr std::uint32_t prefix_of =
    Mode == call_mode::stoppable ? sizeof(am::stoppable_prefix) : 0;

/// As requester::commit_request(), behind a prefix for which there is space at `to`.
inline void commit_stoppable(am::requester& l, std::byte* to, std::uint32_t bytes,
                             am::handler_key key, am::pending_call& slot, function_handle handle,
                             record_kind kind = record_kind::stoppable_request) noexcept {
  const am::stoppable_prefix prefix{l.owner().next_stoppable_id(), 0};
  std::memcpy(to, &prefix, sizeof prefix);
  l.commit_request(to, bytes, key, &slot, handle.value, kind);
  l.make_stoppable(slot, prefix.id);
}

/// As send(), for what finds no space at once, and for arguments of any length.
template <call_mode Mode, class R, class... S>
sent_call<Mode> send_slow(am::requester& l, am::handler_key key, function_handle handle,
                          time_point deadline, const S&... args) {
  constexpr bool is_stoppable = Mode == call_mode::stoppable;
  constexpr std::uint32_t prefix_bytes = prefix_of<Mode>;
  constexpr bool bitwise = (is_bitwise<S> && ...);
  std::uint64_t bytes = 0;
  if constexpr (bitwise) {
    bytes = bitwise_layout<S...>::size;
  } else {
    bytes = packed_size(args...);
  }
  const auto fill = [&](std::byte* to) {
    if constexpr (bitwise) {
      bitwise_layout<S...>::store(to, args...);
    } else {
      writer w(to, bytes);
      w(args...);
    }
  };

  std::byte* block = nullptr;
  if (bytes > l.largest_arguments() - prefix_bytes) [[unlikely]] {
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
    // A block is given back when the reply comes, so it needs a pending call in any case.
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
      // Throws with the guard released.
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
      // The node has failed. That is the reply.
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

/// Sends `handle` and `args`, packed, to handler `key`. The pending call becomes ready when the
/// reply, a value of type R, has come, or the lane has failed. Null for a posted call.
///
/// Does not wait unless the lane is full; a call that is only tried is then not sent. Throws
/// timeout when it stays full until `deadline`, out_of_memory for arguments that find no space,
/// error for a peer that takes no rendezvous requests, and what packing throws.
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

/// A callable and the arguments as they are sent.
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
      const function_handle handle = context.functions->handle_for(l, function, deadline);
      return send<Mode, result>(l, key, handle, deadline, args...);
    } else {
      const am::handler_key key = key_resolver::key_for(l, far::self, context, deadline);
      return send<Mode, result>(l, key, {}, deadline, f, args...);
    }
  }
};

/// The callable type that stands for F: functions become pointers without noexcept, which is no
/// part of what peers agree on.
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
