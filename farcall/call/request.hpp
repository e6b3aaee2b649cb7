#pragma once

#include <farcall/call/invoke.hpp>

#include <exception>
#include <type_traits>
#include <utility>

/// The calling side of a far call: key, arguments into the ring, commit.
namespace farcall::detail {

/// Sends `token` and `args`, packed, to handler `key`. The slot becomes ready when the answer, a
/// value of type R, has come, or the lane has failed. With `abandoned`, nobody waits for it and
/// null is returned.
///
/// Does not wait unless the lane is full. Throws timeout when it stays full until `deadline`,
/// out_of_memory for arguments that find no room, error for a peer that takes no long ones, and
/// what packing throws.
template <class R, class... S>
am::call_slot* send(am::lane& l, am::handler_key key, function_token token, time_point deadline,
                    bool abandoned, const S&... args) {
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
  if (bytes > l.largest_arguments()) [[unlikely]] {
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
  am::call_slot* slot = nullptr;
  std::byte* to = nullptr;
  try {
    // A block is given back when the answer comes, so it needs a slot in any case.
    if (!abandoned || block != nullptr) slot = &l.take_slot(&read_answer<R>);
    const auto inline_bytes =
        static_cast<std::uint32_t>(block != nullptr ? sizeof(am::long_body) : bytes);
    to = l.try_reserve_request(inline_bytes);
    if (to == nullptr) [[unlikely]] {
      // Throws with the guard released.
      struct relock {
        am::lane& l;
        int before = std::uncaught_exceptions();
        ~relock() {
          if (std::uncaught_exceptions() > before) l.guard().lock();
        }
      } const relock_on_throw{l};
      to = l.owner().wait_for_room(l, inline_bytes, deadline);
    }
    if (to != nullptr) [[likely]] {
      if (block != nullptr) {
        const am::long_body where{reinterpret_cast<std::uintptr_t>(block), bytes};
        std::memcpy(to, &where, sizeof where);
        l.attach_block(*slot, block);
      } else {
        fill(to);
      }
      l.commit_request(to, inline_bytes, key, slot, token.value,
                       block != nullptr ? record_kind::request_long : record_kind::request);
    } else {
      // The node has failed. That is the answer.
      if (block != nullptr) l.owner().release_block(std::exchange(block, nullptr));
      if (abandoned) std::rethrow_exception(l.failure());
      l.fail_slot(*slot, l.failure());
    }
  } catch (...) {
    if (to == nullptr && block != nullptr) l.owner().release_block(block);
    if (slot != nullptr) l.return_slot(*slot);
    l.guard().unlock();
    throw;
  }
  l.guard().unlock();
  if (abandoned && slot != nullptr) {
    l.abandon(*slot);
    return nullptr;
  }
  return slot;
}

/// A callable and the arguments as they travel.
template <class F, class Signature>
struct caller;

template <class F, class R, class... P>
struct caller<F, signature<R, P...>> {
  using result = typename travelling_result<R>::type;
  using far = far_call<F, R, P...>;

  static am::call_slot* call(am::lane& l, const call_context& context, time_point deadline,
                             bool abandoned, const F& f,
                             const typename travelling<P>::type&... args) {
    require_callable<F>();
    call_policy<F>::template name<R, &far::self, P...>();
    const am::handler_key key = directory::key_for(l, far::self, context, deadline);
    if constexpr (is_function_pointer<F>::value) {
      const function_token token =
          context.functions->token_for(l, reinterpret_cast<any_function>(f), deadline);
      return send<result>(l, key, token, deadline, abandoned, args...);
    } else {
      return send<result>(l, key, {}, deadline, abandoned, f, args...);
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
