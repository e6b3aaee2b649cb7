// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/client.hpp>
#include <farcall/call/context.hpp>
#include <farcall/call/pack.hpp>

#include <new>
#include <type_traits>

namespace farcall::detail {

/// True if a result of type R is stored in the pending call itself. A larger result is stored on
/// the heap, and the pending call holds a pointer to it.
template <class R>
inline constexpr bool fits_call = sizeof(R) <= am::call_storage && alignof(R) <= 16;

/// Padding before a packed reply, in bytes. It is needed because the result must be aligned to 16,
/// but replies start 8 bytes into a record. Rendezvous replies start at the beginning of a block.
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
    // Set the context, because unpacked values such as node handles may look up their job.
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

/// Function of type am::reply_reader that reads results of type R.
template <class R>
void read_reply(am::pending_call& slot, am::reply_action action, am::reply_view what) {
  if constexpr (!std::is_void_v<R>) {
    if (action == am::reply_action::destroy) return destroy_result<R>(slot);
    const call_context* context = nullptr;
    if constexpr (!is_bitwise<R>) context = slot.owner()->context();
    if constexpr (fits_call<R>) {
      new (slot.storage()) R(unpack_reply<R>(what, context));
    } else {
      new (slot.storage()) R*(new R(unpack_reply<R>(what, context)));
    }
  }
}

} // namespace farcall::detail
