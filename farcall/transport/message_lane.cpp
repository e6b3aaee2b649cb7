// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/message_lane.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace farcall {
namespace {

/// Time for which commits are deferred, from the first commit after a send on, so that one message
/// carries several commits. Commits are deferred only if the user has not polled since that send.
constexpr std::chrono::nanoseconds min_gap{2000};

} // namespace

message_peer::message_peer() = default;
message_peer::~message_peer() = default;

message_lane::message_lane(message_link& by, message_peer& to, node_id self, lane_number number,
                           std::uint32_t ring_bytes, doorbell& wakes, lane_role role)
    : staged_lane(&message_lane::committed), link_(&by), to_(&to), self_(self), number_(number),
      rings_(make_line_aligned(std::size_t{ring_bytes} * 2)),
      assembler_(rings_.get() + ring_bytes, ring_bytes) {
  begin(rings_.get(), rings_.get() + ring_bytes, ring_bytes, role, wakes);
}

lane_header message_lane::header(std::uint64_t position) noexcept {
  told_ = in_.consumed();
  return {check_of(to_->key, number_), way_of(self_, role() == lane_role::opener, number_),
          static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(told_)};
}

// ---- sending ------------------------------------------------------------------------------------

void message_lane::committed(void* lane_pointer) noexcept {
  auto& self = static_cast<message_lane&>(*static_cast<staged_lane*>(lane_pointer));
  message_link& link = *self.link_;
  if (!self.has_polled_.load(std::memory_order_relaxed) && link.moves_by_itself()) {
    const time_point::rep now = clock::now().time_since_epoch().count();
    const time_point::rep again = self.send_again_.load(std::memory_order_relaxed);
    if (again == 0) self.send_again_.store(now + min_gap.count(), std::memory_order_relaxed);
    if (again == 0 || now < again) {
      self.defer();
      return;
    }
  }
  if (!link.is_for_caller()) {
    self.defer();
    return;
  }
  std::unique_lock guard(link.mutex(), std::try_to_lock);
  // Wait for the lock if only this thread may use the network. The thread that holds the lock must
  // not send our bytes, which would otherwise stay unsent until this thread polls. The wait is
  // short.
  if (!guard && !link.moves_by_itself()) guard.lock();
  if (guard) {
    self.send();
  } else {
    // Defer the send: the thread that holds the lock may have polled the ring before our commit, so
    // that it would not send our bytes.
    self.defer();
  }
}

void message_lane::defer() noexcept {
  if (!deferred_.exchange(true, std::memory_order_seq_cst)) link_->poll_again();
}

void message_lane::send() noexcept {
  if (!is_sending(out_.state()) || is_under_way_) return;
  // Clear the mark of deferred bytes before reading the ring. A thread that commits after the read
  // sets the mark again, so that its bytes are sent later.
  deferred_.exchange(false, std::memory_order_seq_cst);
  const std::uint64_t end = out_.take_all();
  if (sent_ != end) {
    has_polled_.store(false, std::memory_order_relaxed);
    send_again_.store(0, std::memory_order_relaxed);
  }
  while (sent_ != end && !is_under_way_) {
    // Keep one granule of the peer's ring free, because the peer also writes a commit word behind
    // the last record that it has received.
    const std::uint64_t limit = peer_read_ + out_.size() - record_alignment;
    const std::uint64_t offset = sent_ & (out_.size() - 1);
    const std::uint64_t bytes =
        std::min({end - sent_, limit - sent_, std::uint64_t{out_.size()} - offset,
                  std::uint64_t{link_->max_bytes()}});
    if (bytes == 0) {
      out_.on(send_event::block);
      return;
    }
    if (is_blocked(out_.state())) out_.on(send_event::unblock);
    if (!send_part(bytes)) return;
  }
  if (out_.state() == send_state::closing && sent_ == end && !is_under_way_ &&
      out_.on(send_event::finish) && role() == lane_role::opener) {
    link_->post(*to_, lane_message::close, header(sent_));
  }
}

bool message_lane::send_part(std::uint64_t bytes) noexcept {
  header_ = header(sent_);
  switch (link_->send(*this, header_, {out_.base() + (sent_ & (out_.size() - 1)), bytes})) {
  case message_link::outcome::sent:
    sent_ += bytes;
    out_.give_credit(sent_);
    return true;
  case message_link::outcome::under_way:
    sent_ += bytes;
    is_under_way_ = true;
    return true;
  case message_link::outcome::later:
    return false;
  case message_link::outcome::failed:
    break;
  }
  out_.on(send_event::cut);
  return false;
}

void message_lane::was_sent(bool is_good) noexcept {
  is_under_way_ = false;
  if (is_good) {
    out_.give_credit(sent_);
  } else {
    out_.on(send_event::cut);
  }
  link_->serve_soon(*this);
}

// ---- receiving ----------------------------------------------------------------------------------

bool message_lane::is_receiving() const noexcept {
  const receive_state now = in_.state();
  return now == receive_state::open || now == receive_state::full;
}

void message_lane::take_credit(const lane_header& h) noexcept {
  // Ignore a position that is not newer than the last one. Also ignore a position behind the sent
  // bytes, which the peer cannot have read.
  const std::uint64_t read = whole_position(h.read, peer_read_);
  if (read <= peer_read_ || read > sent_) return;
  peer_read_ = read;
  if (is_blocked(out_.state())) link_->serve_soon(*this);
}

void message_lane::take_bytes(const lane_header& h, std::span<const std::byte> bytes) noexcept {
  take_credit(h);
  if (!is_receiving()) return;
  const std::uint64_t position = whole_position(h.position, received_);
  if (position == received_) {
    put(bytes);
    for (auto next = early_.begin(); next != early_.end() && next->first == received_;
         next = early_.begin()) {
      // Take the entry out of early_ before put(). If the bytes are no record, put() clears early_,
      // and an entry that is still in the map would be destroyed.
      const auto bytes_in_turn = early_.extract(next);
      early_bytes_ -= bytes_in_turn.mapped().size();
      put(bytes_in_turn.mapped());
    }
    end_if_complete();
    return;
  }
  // Refuse bytes that were received before, and more early bytes than a ring holds. Also refuse
  // empty messages: senders never send them, and any number of them would pass the limit of bytes.
  if (position < received_ || bytes.empty() || early_bytes_ + bytes.size() > in_.size()) {
    corrupt();
    return;
  }
  try {
    if (early_.try_emplace(position, bytes.begin(), bytes.end()).second) {
      early_bytes_ += bytes.size();
    } else {
      corrupt();
    }
  } catch (const std::bad_alloc&) {
    corrupt();
  }
}

void message_lane::put(std::span<const std::byte> bytes) noexcept {
  if (!is_receiving() || bytes.empty()) return;
  record_assembler::parts parts{};
  const std::size_t count = assembler_.space(parts, in_.consumed());
  std::size_t done = 0;
  for (std::size_t i = 0; i < count && done < bytes.size(); ++i) {
    const std::size_t n = std::min(parts[i].iov_len, bytes.size() - done);
    std::memcpy(parts[i].iov_base, bytes.data() + done, n);
    done += n;
  }
  // If the peer has sent more bytes than the ring has space for, it has exceeded its credit, and
  // the lane is corrupt.
  const std::uint64_t before = assembler_.whole();
  received_ += done;
  if (!assembler_.add(done) || done != bytes.size()) {
    corrupt();
  } else if (assembler_.whole() != before) {
    in_.wake();
  }
}

void message_lane::corrupt() noexcept {
  early_.clear();
  assembler_.mark(record_kind::corrupt);
  if (in_.on(receive_event::corrupt)) in_.wake();
}

void message_lane::take_close(const lane_header& h) noexcept {
  take_credit(h);
  end_ = whole_position(h.position, received_);
  end_if_complete();
}

void message_lane::end_if_complete() noexcept {
  if (end_ != received_ || !is_receiving()) return;
  // If the stream ends behind a whole record, the peer has closed in order. If it ends inside a
  // record, the lane is lost.
  const bool is_whole = assembler_.is_between_records();
  if (in_.on(is_whole ? receive_event::end : receive_event::lose)) in_.wake();
}

void message_lane::return_credit() noexcept {
  if (!is_receiving() || in_.consumed() - told_ < in_.size() / 2) return;
  link_->post(*to_, lane_message::credit, header(sent_));
}

// ---- both directions ----------------------------------------------------------------------------

void message_lane::serve() noexcept {
  return_credit();
  send();
}

void message_lane::progress() noexcept {
  has_polled_.store(true, std::memory_order_relaxed);
  if (!link_->is_for_caller()) return;
  const std::unique_lock guard(link_->mutex(), std::try_to_lock);
  if (!guard) return;
  if (out_.has_commits() || deferred_.load(std::memory_order_relaxed)) send();
  link_->poll();
  return_credit();
}

void message_lane::arm() noexcept {
  has_polled_.store(true, std::memory_order_relaxed);
  if (link_->is_for_caller()) {
    const std::unique_lock guard(link_->mutex(), std::try_to_lock);
    if (guard) serve();
  }
  link_->arm();
}

void message_lane::finish() noexcept {
  out_.on(send_event::close);
  send();
  in_.on(receive_event::close);
}

void message_lane::cut() noexcept {
  out_.on(send_event::cut);
  in_.on(receive_event::lose);
}

bool message_lane::lose() noexcept {
  out_.on(send_event::cut);
  if (!in_.on(receive_event::lose)) return false;
  if (role() == lane_role::opener) return true;
  in_.wake();
  return false;
}

void message_lane::declare_lost() noexcept {
  assembler_.mark(record_kind::lost);
  notify(in_.wakes());
}

bool message_lane::is_drained() noexcept {
  send();
  return !is_under_way_ && (!is_sending(out_.state()) || sent_ == out_.take_all());
}

} // namespace farcall
