// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/staged_lane.hpp>

namespace farcall {

// ---- sending ------------------------------------------------------------------------------------

void staged_outbox::reset(std::byte* ring, std::uint32_t bytes) noexcept {
  clear_ring(ring);
  farcall::attach(cursor_, ring, bytes, read_);
  seen_.store(0, std::memory_order_relaxed);
  consumed_.store(0, std::memory_order_relaxed);
}

void staged_outbox::attach(outbox& user) const noexcept {
  farcall::attach(user, base(), size(), consumed_);
}

record_view staged_outbox::next() noexcept {
  const record_view record = peek(cursor_);
  if (record.kind == record_kind::corrupt) {
    on(send_event::close);
    return {};
  }
  return record;
}

// ---- receiving ----------------------------------------------------------------------------------

void staged_inbox::reset(std::byte* ring, std::uint32_t bytes, doorbell& wakes) noexcept {
  clear_ring(ring);
  consumed_.store(0, std::memory_order_relaxed);
  farcall::attach(writer_, ring, bytes, consumed_);
  notify_on_commit(writer_, wakes);
  wakes_ = &wakes;
}

void staged_inbox::attach(inbox& user) noexcept {
  farcall::attach(user, base(), size(), consumed_);
}

std::byte* staged_inbox::reserve(std::uint32_t bytes) noexcept {
  std::byte* const record = try_reserve(writer_, bytes);
  if (record == nullptr) {
    on(receive_event::fill);
  } else if (state() == receive_state::full) {
    on(receive_event::drain);
  }
  return record;
}

// ---- both directions ----------------------------------------------------------------------------

void staged_lane::begin(std::byte* out_ring, std::byte* in_ring, std::uint32_t ring_bytes,
                        lane_role role, doorbell& wakes) noexcept {
  role_ = role;
  out_.reset(out_ring, ring_bytes);
  in_.reset(in_ring, ring_bytes, wakes);
  out_.on(send_event::open);
  in_.on(receive_event::open);
}

void staged_lane::fill(endpoint& end) noexcept {
  out_.attach(end.out);
  in_.attach(end.in);
  notify_on_commit(end.out, committed_, this);
  end.driver = this;
}

} // namespace farcall
