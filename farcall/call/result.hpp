#pragma once

#include <farcall/am/client.hpp>
#include <farcall/call/context.hpp>
#include <farcall/call/pack.hpp>

#include <new>
#include <type_traits>

namespace farcall::detail {

/// Results that fit lie in the pending call; others on the heap, and the pending call points to
/// them.
template <class R>
inline constexpr bool fits_call = sizeof(R) <= am::call_storage && alignof(R) <= 16;

/// Bytes to skip in front of a reply made by a writer, which needs alignment to 16: replies start 8
/// bytes into a record, rendezvous replies at the start of a block.
inline constexpr std::size_t short_reply_gap = 8;
[[nodiscard]] inline std::size_t reply_gap(const std::byte* data) noexcept {
  return reinterpret_cast<std::uintptr_t>(data) % 16;
}

template <class R>
[[nodiscard]] R& result_in(am::pending_call& slot) noexcept {
  if constexpr (fits_call<R>) {
    return *std::launder(reinterpret_cast<R*>(slot.storage()));
  } else {
    return **std::launder(reinterpret_cast<R**>(slot.storage()));
  }
}

template <class R>
void destroy_result(am::pending_call& slot) noexcept {
  if constexpr (fits_call<R>) {
    result_in<R>(slot).~R();
  } else {
    delete &result_in<R>(slot);
  }
}

template <class R>
[[nodiscard]] R unpack_reply(am::reply_view what, [[maybe_unused]] const call_context* context) {
  if constexpr (is_bitwise<R>) {
    if (what.bytes < packed_bytes<R>) throw_message_too_short(packed_bytes<R>, what.bytes);
    return load_bitwise<R>(what.data);
  } else {
    const std::size_t gap = reply_gap(what.data);
    if (what.bytes < gap) throw_message_too_short(gap, what.bytes);
    // Values may ask for their job, as node handles do.
    const context_scope scope(context);
    return read_message<R>(what.data + gap, what.bytes - gap, [](reader r) {
      if constexpr (std::is_move_constructible_v<R>) {
        R read = r.read<R>();
        require_end(r);
        return read;
      } else {
        return r.read<R>();
      }
    });
  }
}

/// An am::reply_reader for results of type R.
template <class R>
void read_reply(am::pending_call& slot, am::reply_action action, am::reply_view what) {
  if constexpr (!std::is_void_v<R>) {
    if (action == am::reply_action::destroy) return destroy_result<R>(slot);
    const call_context* context = nullptr;
    if constexpr (!is_bitwise<R>)
      context = static_cast<const call_context*>(slot.owner()->context());
    if constexpr (fits_call<R>) {
      new (slot.storage()) R(unpack_reply<R>(what, context));
    } else {
      new (slot.storage()) R*(new R(unpack_reply<R>(what, context)));
    }
  }
}

} // namespace farcall::detail
