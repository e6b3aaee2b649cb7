#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>

namespace farcall::trace {

/// What happened. Kinds come in pairs, a beginning and behind it its end, but for posts.
enum class event_kind : std::uint8_t {
  call_begin = 1, ///< a request that wants an answer is sent; `lane` is the caller's
  call_end,       ///< its answer was taken in, or will not come
  post,           ///< a request that wants no answer is sent
  handler_begin,  ///< of a request; `lane` is the server's
  handler_end,
  wait_begin, ///< a thread waits for longer than a short call takes
  wait_end,
  sleep_begin,
  sleep_end,
  put_begin, ///< `lane` is the node, `position` counts bytes
  put_end,
  get_begin,
  get_end,
  copy_begin, ///< between two other nodes
  copy_end,
  range_begin, ///< of the user's; `key` is the number of its name
  range_end,
};
inline constexpr event_kind last_event_kind = event_kind::range_end;

/// As it is recorded. A request is the same at both ends of its lane by `position`, its place in
/// the lane's ring; a call and its end by `slot`, which no other call has meanwhile.
struct event {
  static constexpr unsigned kind_shift = 24; ///< of kind_and_lane
  static constexpr std::uint32_t lane_mask = (std::uint32_t{1} << kind_shift) - 1;

  std::uint64_t ticks = 0;
  std::uint64_t position = 0;
  std::uint32_t kind_and_lane = 0;
  std::uint32_t slot = 0;
  std::uint32_t key = 0;    ///< of the handler, as its node counts
  std::uint32_t handle = 0; ///< of a plain function, as its node counts

  [[nodiscard]] event_kind kind() const noexcept {
    return static_cast<event_kind>(kind_and_lane >> kind_shift);
  }
  [[nodiscard]] std::uint32_t lane() const noexcept { return kind_and_lane & lane_mask; }
};
static_assert(sizeof(event) == 32);

} // namespace farcall::trace
