// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/limited_log.hpp>
#include <farcall/transport/tcp/lane.hpp>
#include <farcall/transport/tcp/path_monitor.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace farcall::tcp {
namespace {

/// After a send, commits are deferred for at least this time, so that they are sent as one batch.
/// The time is shorter than a round trip on loopback. A longer time would delay calls whose callers
/// wait for the reply, and would wake the loop for nothing.
constexpr std::chrono::nanoseconds min_gap{2000};
/// Upper bound of the time for which commits are deferred. After a send of deferred commits, the
/// next deferral lasts as long as that send took. A stream of small messages therefore spends about
/// half its time on sending.
constexpr std::chrono::nanoseconds max_gap{20000};

/// Interval at which delayed acknowledgements are requested again, because the kernel resets this
/// mode now and then.
constexpr std::chrono::milliseconds delay_interval{1};

/// Time without incoming bytes after which the event loop, in place of the user, watches the lane.
/// Each poll of a socket costs a system call, and a worker may have many lanes.
constexpr std::chrono::milliseconds quiet_for{1};
constexpr unsigned looks_per_clock = 16;

/// Time for which the user of a lost lane is not told of the loss. If the peer's node has ended,
/// the notice of its end may arrive in this time. The notice gives a better reason than the loss of
/// the lane.
constexpr std::chrono::milliseconds notice_interval{500};

/// The opener of a lost lane waits for this time before it tells the peer that it has given up the
/// lane.
constexpr std::chrono::milliseconds telling_delay{100};

/// Time within which a peer has to end a lane that this end has refused.
constexpr std::chrono::milliseconds leave_interval{1000};

/// Collects the bytes to send next: `first`, and after it the ring's bytes from `sent` to `end`.
std::size_t parts_to_send(std::array<iovec, 3>& parts, std::span<std::byte> first,
                          const staged_outbox& out, std::uint64_t sent,
                          std::uint64_t end) noexcept {
  std::size_t count = 0;
  if (!first.empty()) parts[count++] = {first.data(), first.size()};
  const std::uint64_t offset = sent & (out.size() - 1);
  const std::uint64_t left = end - sent;
  const std::uint64_t straight = std::min<std::uint64_t>(left, out.size() - offset);
  if (straight != 0) parts[count++] = {out.base() + offset, straight};
  if (left != straight) parts[count++] = {out.base(), left - straight};
  return count;
}

} // namespace

stream_endpoint::stream_endpoint(event_loop& loop, counted_ptr<deferral_sweep> sweep,
                                 std::uint32_t ring_bytes, doorbell& wakes, lane_role role)
    : staged_lane(&stream_endpoint::committed), loop_(&loop), sweep_(std::move(sweep)),
      rings_(make_line_aligned(std::size_t{ring_bytes} * 2)),
      assembler_(rings_.get() + ring_bytes, ring_bytes) {
  begin(rings_.get(), rings_.get() + ring_bytes, ring_bytes, role, wakes);
}

stream_endpoint::~stream_endpoint() = default;

bool stream_endpoint::is_established() const noexcept {
  const stream* const to = link();
  return to != nullptr && to->is_established();
}

// ---- sending ------------------------------------------------------------------------------------

void stream_endpoint::committed(void* lane) noexcept {
  auto& self = static_cast<stream_endpoint&>(*static_cast<staged_lane*>(lane));
  if (self.is_due()) {
    self.flush();
  } else if (!self.deferred_.exchange(true, std::memory_order_seq_cst)) {
    self.sweep_->note();
  }
}

void stream_endpoint::flush() noexcept {
  if (!send_mutex_.try_lock()) {
    // Leave this commit to a later send: the thread that is sending now may have read the ring
    // before the commit.
    if (!deferred_.exchange(true, std::memory_order_seq_cst)) sweep_->note();
    return;
  }
  flush_locked();
  send_mutex_.unlock();
}

void stream_endpoint::flush_locked() noexcept {
  if (!is_sending(out_.state())) return;
  stream* const to = link();
  if (to == nullptr) {
    out_.on(send_event::block);
    return;
  }
  if (to->fd() < 0) return;
  // Clear the mark before reading the ring, because a thread that commits after the read sets the
  // mark again.
  const bool had_waited = deferred_.exchange(false, std::memory_order_seq_cst);
  const time_point begin = clock::now();
  const std::uint64_t end = out_.take_all();
  while (!first_.empty() || sent_ != end) {
    std::array<iovec, 3> parts{};
    const std::size_t count = parts_to_send(parts, first_, out_, sent_, end);
    const io_result wrote = to->write({parts.data(), count});
    if (wrote.status == io_status::would_block) {
      out_.on(send_event::block);
      arm_socket();
      return;
    }
    if (wrote.status != io_status::done) {
      lose();
      return;
    }
    note_sent(wrote.bytes);
  }
  const time_point now = clock::now();
  const clock::duration gap =
      had_waited ? std::clamp<clock::duration>(now - begin, min_gap, max_gap) : min_gap;
  send_again_.store((now + gap).time_since_epoch().count(), std::memory_order_relaxed);
  if (out_.state() != send_state::open) [[unlikely]]
    settle(*to);
}

/// Called after all committed bytes were sent. If sending was blocked, ends that state. If the lane
/// is closing, ends the sending direction of the connection.
void stream_endpoint::settle(stream& to) noexcept {
  if (is_blocked(out_.state())) out_.on(send_event::unblock);
  if (out_.state() != send_state::closing || !out_.on(send_event::finish)) return;
  to.finish();
  // At an acceptor's end, sending ends only if the user has refused to serve more requests, because
  // an acceptor's user never closes the lane.
  if (role() == lane_role::acceptor) leave();
}

/// Begins to wait until the peer ends a lane whose user has refused to serve more requests. The
/// peer ends the connection when it reads that this end has stopped sending. If the peer does not
/// do so within `leave_interval`, this end cuts the connection, because a peer may use this
/// process's memory only for a limited time.
void stream_endpoint::leave() noexcept {
  has_refused_.store(true, std::memory_order_release);
  try {
    loop_->post([self = shared_from_this()] {
      {
        const std::lock_guard guard(self->receive_mutex_);
        self->in_.on(receive_event::close);
      }
      self->is_watched_.store(true, std::memory_order_seq_cst);
      self->arm_socket();
    });
    loop_->at(clock::now() + leave_interval, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self || self->has_ended()) return;
      self->cut();
      self->in_.wake();
    });
  } catch (const std::exception&) {
    cut();
    in_.wake();
  }
}

void stream_endpoint::note_sent(std::uint64_t bytes) noexcept {
  const auto of_first = std::min<std::uint64_t>(bytes, first_.size());
  first_.erase(first_.begin(), first_.begin() + static_cast<std::ptrdiff_t>(of_first));
  sent_ += bytes - of_first;
  out_.give_credit(sent_);
}

void stream_endpoint::send_deferred() noexcept {
  if (deferred_.load(std::memory_order_relaxed)) flush();
}

// ---- receiving ----------------------------------------------------------------------------------

void stream_endpoint::receive_locked() noexcept {
  stream* const from = link();
  if (from == nullptr || from->fd() < 0) return;
  const bool was_established = from->is_established();
  const receive_state state = in_.state();
  if (state == receive_state::open || state == receive_state::full) {
    fill_ring(*from);
  } else if (state == receive_state::dropping) {
    drop_received(*from);
  }
  // When the handshake is complete, try to send again. A blocked send may wait for bytes of the
  // peer that the handshake has already taken from the socket.
  if (!was_established && from->is_established()) {
    loop_->post([self = shared_from_this()] { self->on_event(0); });
  }
}

void stream_endpoint::fill_ring(stream& from) noexcept {
  for (;;) {
    record_assembler::parts parts{};
    const std::size_t count = assembler_.space(parts, in_.consumed());
    if (count == 0) {
      in_.on(receive_event::fill);
      return;
    }
    if (in_.state() == receive_state::full) in_.on(receive_event::drain);
    std::size_t wanted = 0;
    for (std::size_t i = 0; i < count; ++i)
      wanted += parts[i].iov_len;
    const io_result got = from.read({parts.data(), count});
    if (got.status == io_status::would_block) {
      note_miss();
      return;
    }
    if (got.status != io_status::done) {
      const bool in_order = got.status == io_status::closed && role() == lane_role::acceptor &&
                            assembler_.is_between_records();
      if (!in_order) {
        lose();
      } else if (in_.on(receive_event::end)) {
        in_.wake();
      }
      return;
    }
    misses_ = 0;
    received_ += got.bytes;
    if (const time_point now = clock::now(); now >= next_delay_) {
      delay_acknowledgements(from.fd());
      next_delay_ = now + delay_interval;
    }
    if (!assembler_.add(got.bytes)) {
      in_.on(receive_event::corrupt);
      return;
    }
    if (got.bytes < wanted && !from.has_buffered()) return;
  }
}

void stream_endpoint::note_miss() noexcept {
  if (++misses_ % looks_per_clock != 0) return;
  const time_point now = clock::now();
  if (misses_ == looks_per_clock) quiet_since_ = now;
  if (now - quiet_since_ > quiet_for) arm();
}

void stream_endpoint::drop_received(stream& from) noexcept {
  const iovec all{in_.base(), in_.size()};
  // Limit of the reads, so that a peer that never stops sending does not starve the loop's other
  // events.
  constexpr int max_reads = 16;
  for (int n = 0; n < max_reads; ++n) {
    const io_result got = from.read({&all, 1});
    received_ += got.bytes;
    if (got.status == io_status::done) continue;
    if (got.status != io_status::would_block && in_.on(receive_event::end)) {
      in_.wake();
      sweep_->note();
    }
    return;
  }
}

void stream_endpoint::progress() noexcept {
  const send_state sending = out_.state();
  const bool is_stuck = is_blocked(sending);
  // Deferred commits are not sent before their time, even if the sender polls earlier.
  const bool has_work =
      is_stuck || ((out_.has_commits() || deferred_.load(std::memory_order_relaxed)) && is_due());
  // During a handshake, try a blocked send again. A poll for records may have taken the bytes of
  // the handshake that the send waits for.
  const bool may_send = is_sending(sending) && (!is_stuck || !is_established());
  if (has_work && may_send && send_mutex_.try_lock()) {
    flush_locked();
    send_mutex_.unlock();
  }
  if (is_watched_.load(std::memory_order_relaxed) || !receive_mutex_.try_lock()) return;
  receive_locked();
  receive_mutex_.unlock();
}

// ---- the loop's part -------------------------------------------------------------------------

void stream_endpoint::arm() noexcept {
  if (!is_watched_.exchange(true, std::memory_order_seq_cst)) arm_socket();
}

void stream_endpoint::arm_socket() noexcept {
  stream* const from = link();
  if (from == nullptr) return;
  const std::lock_guard guard(arm_mutex_);
  if (from->fd() < 0) return;
  std::uint32_t events = EPOLLONESHOT;
  if (is_watched_.load(std::memory_order_seq_cst)) {
    // Post a call of the handler in place of watching the socket, because bytes that the stream has
    // buffered do not make the socket readable.
    if (from->has_buffered()) {
      loop_->post([self = shared_from_this()] { self->on_event(0); });
      return;
    }
    events |= EPOLLIN;
    if (from->read_wants_write()) events |= EPOLLOUT;
  }
  if (is_blocked(out_.state())) {
    events |= from->write_wants_read() && !is_established() ? EPOLLIN : EPOLLOUT;
  }
  loop_->modify(from->fd(), events);
}

void stream_endpoint::on_event(std::uint32_t /*events*/) noexcept {
  bool has_notices = false;
  {
    const std::lock_guard guard(send_mutex_);
    if (is_blocked(out_.state())) out_.on(send_event::unblock);
    flush_locked();
  }
  {
    const std::lock_guard guard(receive_mutex_);
    const std::uint64_t before = assembler_.whole();
    is_watched_.store(false, std::memory_order_relaxed);
    receive_locked();
    // Wake the user for a full ring, too, and do not watch the socket. The user, who has not slept
    // since the ring became full, empties the ring and then polls the socket.
    const receive_state now = in_.state();
    has_notices = assembler_.whole() != before ||
                  (now != receive_state::open && now != receive_state::dropping);
  }
  if (has_notices) {
    in_.wake();
    if (is_blocked(out_.state())) arm_socket();
  } else {
    is_watched_.store(true, std::memory_order_seq_cst);
    arm_socket();
  }
}

void stream_endpoint::attach_or_give_up(std::unique_ptr<stream> connection,
                                        std::span<const std::byte> first, const std::string& why) {
  if (is_attached()) return;
  if (!connection) {
    give_up(why);
    return;
  }
  try {
    attach(std::move(connection), first);
  } catch (const std::exception& e) {
    give_up(e.what());
  }
}

void stream_endpoint::attach(std::unique_ptr<stream> connection, std::span<const std::byte> first) {
  {
    const std::scoped_lock guard(send_mutex_, receive_mutex_);
    first_.assign(first.begin(), first.end());
    stream_ = std::move(connection);
    loop_->add(stream_->fd(), EPOLLONESHOT, shared_from_this());
    // Sequentially consistent, so that a cut by another thread is not missed: either cut() sees the
    // connection, or attach() sees the state `cut` below.
    link_.store(stream_.get(), std::memory_order_seq_cst);
    out_.on(send_event::unblock);
    flush_locked();
  }
  if (out_.state() == send_state::cut) {
    // Another thread has cut the lane while it was being connected.
    cut();
    return;
  }
  // Check for events now. A user may have gone to sleep before the lane had a socket, so that
  // arming the lane had no effect. The first bytes may also have arrived together with the connect
  // request.
  on_event(0);
}

void stream_endpoint::give_up(const std::string& why) {
  // Log at a limited rate, because programs may try to connect as often as they like. The object is
  // never destroyed, because the loop's thread may still use it after static objects were
  // destroyed.
  static auto* const warnings = new log::limited_log("more lanes could not be connected");
  warnings->warning("a lane could not be connected: " + why);
  lose();
}

void stream_endpoint::lose() noexcept {
  out_.on(send_event::cut);
  if (!in_.on(receive_event::lose)) return;
  if (role() == lane_role::acceptor) {
    in_.wake();
    return;
  }
  // Discard the requests that the peer has not received, because the calls of these requests will
  // fail. Such a request must not run after a call that the program makes in its place.
  drop_undelivered();
  try {
    const bool is_notice_awaited = !peer_lives_.load(std::memory_order_relaxed);
    const time_point now = clock::now();
    loop_->at(is_notice_awaited ? now + notice_interval : now,
              [self = shared_from_this()] { self->await_loss(); });
    // Do not tell the peer at once, unless it is known to live. If the peer's node has ended, the
    // notice of its end arrives before this time in most cases.
    loop_->at(is_notice_awaited ? now + telling_delay : now, [self = shared_from_this()] {
      // If no connection was ever made, there are no bytes that the peer has to refuse.
      if (!self->end_ || self->link() == nullptr) {
        self->await_loss();
      } else {
        self->end_([self] { self->await_loss(); });
      }
    });
  } catch (const std::exception&) {
    in_.wake();
  }
}

void stream_endpoint::await_loss() noexcept {
  if (--awaited_ == 0) declare_lost();
}

void stream_endpoint::revoke() noexcept {
  out_.on(send_event::cut);
  {
    const std::lock_guard guard(receive_mutex_);
    in_.on(receive_event::lose);
    assembler_.revoke(in_.consumed());
  }
  has_refused_.store(true, std::memory_order_release);
  abort();
  in_.wake();
}

/// Discards the bytes that the peer has not received. Called on the loop's thread, or with one of
/// the locks that close_socket() takes, so that the descriptor is not closed meanwhile.
void stream_endpoint::drop_undelivered() noexcept {
  const stream* const to = link();
  if (to != nullptr && to->fd() >= 0) abort_connection(to->fd());
}

void stream_endpoint::declare_lost() noexcept {
  {
    const std::lock_guard guard(receive_mutex_);
    assembler_.mark(record_kind::lost);
  }
  notify(in_.wakes());
}

// ---- the end ------------------------------------------------------------------------------------

void stream_endpoint::finish() noexcept {
  {
    const std::lock_guard guard(send_mutex_);
    out_.on(send_event::close);
    flush_locked();
  }
  {
    const std::lock_guard guard(receive_mutex_);
    in_.on(receive_event::close);
  }
  is_watched_.store(true, std::memory_order_seq_cst);
  arm_socket();
}

bool stream_endpoint::has_unsent() noexcept {
  const std::lock_guard guard(send_mutex_);
  flush_locked();
  return is_sending(out_.state()) && (!first_.empty() || sent_ != out_.take_all());
}

stream_position stream_endpoint::position() noexcept {
  stream_position p;
  {
    const std::scoped_lock guard(send_mutex_, receive_mutex_);
    p.sent = sent_;
    p.received = received_;
    p.is_full = in_.state() == receive_state::full;
  }
  const stream* const to = link();
  if (to == nullptr || to->fd() < 0) return p;
  p.is_in_flight = is_in_flight(to->fd());
  return p;
}

void stream_endpoint::end_connection() noexcept {
  if (link() == nullptr) return;
  peer_lives_.store(true, std::memory_order_relaxed);
  {
    const std::lock_guard guard(arm_mutex_);
    if (stream_->fd() < 0) return;
    ::shutdown(stream_->fd(), SHUT_RDWR);
  }
  on_event(0);
}

void stream_endpoint::cut() noexcept {
  out_.on(send_event::cut);
  in_.on(receive_event::lose);
  if (link() == nullptr) return;
  {
    const std::lock_guard guard(arm_mutex_);
    if (stream_->fd() < 0) return;
    loop_->remove(stream_->fd());
    ::shutdown(stream_->fd(), SHUT_RDWR);
  }
  try {
    // Close the socket now, because the object with the rings may live much longer. A thread that
    // has ended, or that makes no more calls, may still hold it.
    loop_->post([self = shared_from_this()] { self->close_socket(); });
  } catch (const std::bad_alloc&) {
    // Without memory for the task, the socket stays open until the rings are destroyed.
  }
}

void stream_endpoint::abort() noexcept {
  {
    const std::lock_guard guard(arm_mutex_);
    drop_undelivered();
  }
  cut();
}

void stream_endpoint::close_socket() noexcept {
  const std::scoped_lock guard(send_mutex_, receive_mutex_, arm_mutex_);
  stream_->close();
}

} // namespace farcall::tcp
