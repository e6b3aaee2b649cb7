// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>

namespace farcall::trace {

/// Kinds of events. All kinds except `post` come in pairs, one for the begin and one for the end of
/// an interval. The number of an end kind is one more than the number of its begin kind.
enum class event_kind : std::uint8_t {
  call_begin = 1, ///< a request with a reply is sent; `lane` is the caller's number for the lane
  call_end,       ///< the reply was received, or will never come
  post,           ///< a request without a reply is sent
  handler_begin,  ///< the handler of a request begins; `lane` is the server's number for the lane
  handler_end,
  wait_begin, ///< a thread waits for longer than a short call takes
  wait_end,
  sleep_begin,
  sleep_end,
  /// A put begins. In events of puts, gets and copies, `lane` is the number of the peer node, and
  /// `position` the number of bytes.
  put_begin,
  put_end,
  get_begin,
  get_end,
  copy_begin, ///< between two other nodes
  copy_end,
  range_begin, ///< a range of the user begins; `key` is the number of its name
  range_end,
};
inline constexpr event_kind last_event_kind = event_kind::range_end;

/// An event, in the form in which it is recorded. The events of one request at both ends of its
/// lane are matched by `position`, the place of the request in the lane's ring. The begin and the
/// end of a call are matched by `slot`, because no other call of the lane uses the slot at the same
/// time.
struct event {
  static constexpr unsigned kind_shift = 24; ///< shift in kind_and_lane
  static constexpr std::uint32_t lane_mask = (std::uint32_t{1} << kind_shift) - 1;

  std::uint64_t ticks = 0;
  std::uint64_t position = 0;
  std::uint32_t kind_and_lane = 0;
  std::uint32_t slot = 0;
  std::uint32_t key = 0;    ///< key of the handler, as on the node that runs it
  std::uint32_t handle = 0; ///< handle of a plain function, as on the node that runs it

  [[nodiscard]] event_kind kind() const noexcept {
    return static_cast<event_kind>(kind_and_lane >> kind_shift);
  }
  [[nodiscard]] std::uint32_t lane() const noexcept { return kind_and_lane & lane_mask; }
};
static_assert(sizeof(event) == 32);

} // namespace farcall::trace
