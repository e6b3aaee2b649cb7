// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/clock.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/transport/tcp/bulk.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

namespace farcall::tcp {
namespace {

/// Smallest size of a bulk copy in bytes. Shorter copies are faster as messages, because the peer's
/// worker already polls, and no second thread has to be woken.
constexpr std::uint64_t min_bulk = 8192;

/// Limit of bulk copies to and from one peer at the same time, each over its own connection.
/// Further copies wait.
constexpr std::size_t max_connections = 4;

/// Time for which a copy polls for its reply before it sleeps, and interval at which a sleeping
/// copy wakes to check whether the connection has ended.
constexpr std::chrono::microseconds eagerness{100};
constexpr std::chrono::milliseconds poll_interval{100};

/// Logs a failed copy at a limited rate, because a peer can make every copy fail.
void note_failed_copy(const std::string& why) {
  // The object is never destroyed, because threads may still use it after static objects were
  // destroyed.
  static auto& lines = *new log::limited_log("more copies have failed");
  lines.warning(why);
}

/// Transfers all bytes of `parts` in one direction: reads them or writes them. run() returns false
/// if the connection ends or the deadline passes.
class transfer {
 public:
  transfer(bulk_connection& c, bool is_read, time_point deadline) noexcept
      : connection_(&c), stream_(&c.bytes()), is_read_(is_read), pace_(pace_of(*stream_)),
        deadline_(deadline) {}

  bool run(std::span<iovec> parts) {
    while (!parts.empty()) {
      if (parts.front().iov_len == 0) {
        parts = parts.subspan(1);
        continue;
      }
      const iovec first{parts.front().iov_base,
                        std::min<std::size_t>(parts.front().iov_len, pace_.slice)};
      std::array<iovec, 2> now{first, {}};
      std::size_t count = 1;
      // Pass a header and the first bytes behind it to one call of the stream's read or write.
      if (parts.size() > 1 && first.iov_len == parts.front().iov_len) {
        now[count++] = {parts[1].iov_base, std::min<std::size_t>(parts[1].iov_len, pace_.slice)};
      }
      const io_result moved =
          is_read_ ? stream_->read({now.data(), count}) : stream_->write({now.data(), count});
      if (moved.status == io_status::would_block) {
        if (!wait()) return false;
        continue;
      }
      if (moved.status != io_status::done) return false;
      waiting_since_ = {};
      connection_->note(is_read_, moved.bytes);
      advance(parts, moved.bytes);
      if (deadline_ != no_deadline && clock::now() >= deadline_) return parts.empty();
      // Yield the CPU from time to time, because threads that wait for replies may share it.
      since_yield_ += moved.bytes;
      if (since_yield_ >= pace_.yield_every) {
        since_yield_ = 0;
        ::sched_yield();
      }
    }
    return true;
  }

 private:
  static void advance(std::span<iovec>& parts, std::size_t bytes) noexcept {
    while (bytes != 0) {
      iovec& front = parts.front();
      const std::size_t part = std::min(bytes, front.iov_len);
      front.iov_base = static_cast<std::byte*>(front.iov_base) + part;
      front.iov_len -= part;
      bytes -= part;
      if (front.iov_len == 0) parts = parts.subspan(1);
    }
  }

  bool wait() {
    const time_point now = clock::now();
    if (now >= deadline_) return false;
    if (waiting_since_ == time_point{}) waiting_since_ = now;
    if (is_read_ && now - waiting_since_ < eagerness) {
      ::sched_yield();
      return true;
    }
    short events = is_read_ ? POLLIN : POLLOUT;
    if (is_read_ && stream_->read_wants_write()) events |= POLLOUT;
    if (!is_read_ && stream_->write_wants_read()) events |= POLLIN;
    pollfd waiting{stream_->fd(), events, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        std::min<clock::duration>(deadline_ - now, poll_interval));
    ::poll(&waiting, 1, static_cast<int>(left.count()));
    return true;
  }

  bulk_connection* connection_;
  stream* stream_;
  bool is_read_;
  bulk_pace pace_;
  time_point deadline_;
  time_point waiting_since_{};
  std::uint64_t since_yield_ = 0;
};

} // namespace

bulk_pace pace_of(const stream& connection) noexcept {
  constexpr std::uint64_t kib = 1024;
  // Use smaller slices for an encrypted stream, so that its thread yields the CPU more often. A
  // thread that copies over a plain stream sleeps whenever the socket is full. Encryption is slower
  // than the socket, so that the thread of an encrypted stream would never sleep, and would keep
  // the CPU for its whole time slice.
  if (connection.is_encrypted()) return {128 * kib, 128 * kib};
  return {512 * kib, 2048 * kib};
}

bool is_in_window(const std::vector<memory_window>& windows, std::uint64_t address,
                  std::uint64_t bytes) noexcept {
  return std::any_of(windows.begin(), windows.end(), [&](const memory_window& w) {
    const std::uint64_t offset = address - w.address;
    return offset <= w.bytes && bytes <= w.bytes - offset;
  });
}

void bulk_connection::abort() noexcept {
  has_ended_.store(true);
  abort_connection(stream_->fd());
}

iovec bulk_connection::take_first() noexcept {
  if (std::exchange(is_first_taken_, true)) return {};
  return {first_.data(), first_.size()};
}

stream_position bulk_connection::position() noexcept {
  const std::uint64_t sent = sent_.load(std::memory_order_relaxed);
  // If the socket has unread bytes, the copying thread has not run since they arrived. In this case
  // report this end as full, so that the peer does not count the bytes as lost.
  int unread = 0;
  const bool is_full = ::ioctl(stream_->fd(), FIONREAD, &unread) == 0 && unread > 0;
  return {sent - std::min<std::uint64_t>(sent, first_.size()),
          received_.load(std::memory_order_relaxed), is_full, is_in_flight(stream_->fd())};
}

void bulk_connection::end_connection() noexcept {
  is_swallowed_.store(true);
  abort();
}

/// A connection that one copy borrows.
class bulk_rma_engine::loan {
 public:
  loan(bulk_rma_engine& from, node_id peer, time_point deadline) : from_(&from), peer_(peer) {
    std::unique_lock guard(from.mutex_);
    peer_state& p = *from.peers_.find(peer);
    // First wait until the peer refuses the remaining bytes of all puts that were given up. The
    // peer could otherwise still write such bytes over the bytes of this put.
    if (!from.wait_for_leaving(guard, p, deadline)) return;
    const waiting_count one_more(p.waiting);
    for (;;) {
      if (p.is_gone) {
        p.failure = "the node is gone";
        return;
      }
      if (!p.idle.empty()) break;
      was_idle_ = false;
      if (!p.why.empty()) {
        p.failure = "no connection for bulk copies could be made: " + std::exchange(p.why, {});
        note_failed_copy(node_text(peer) + ": " + p.failure);
        return;
      }
      // Request one connection for each waiting copy, up to the limit, and no more. The peer would
      // refuse a connection over which no copy sends a request.
      if (p.awaited < p.waiting && p.busy.size() + p.awaited < max_connections) {
        ++p.awaited;
        const std::uint64_t serial = ++p.asked;
        guard.unlock();
        from.connect_(peer, serial);
        guard.lock();
        continue;
      }
      // If the deadline passes during the wait, a connection that was requested is still made, and
      // can serve a later copy.
      if (!from.wait_for_change(guard, deadline)) return;
    }
    connection_ = std::move(p.idle.back());
    p.idle.pop_back();
    p.busy.push_back(connection_);
  }
  loan(const loan&) = delete;
  loan& operator=(const loan&) = delete;
  ~loan() {
    if (!connection_) return;
    std::unique_lock guard(from_->mutex_);
    peer_state& p = *from_->peers_.find(peer_);
    std::erase(p.busy, connection_);
    if (is_sound_) {
      if (!p.is_gone) p.idle.push_back(std::move(connection_));
      from_->changed_.notify_all();
      return;
    }
    p.failure = connection_->is_swallowed()
                    ? "what was sent was acknowledged on the way and did not arrive"
                    : "the connection has ended";
    // Discard the bytes of this copy that were not sent yet. The remaining bytes of a put must not
    // arrive after a later put.
    connection_->abort();
    const bool is_leaving = is_given_up_ && !p.is_gone && !p.has_failed;
    const std::uint64_t serial = connection_->serial();
    if (is_leaving) p.leaving.push_back(serial);
    from_->changed_.notify_all();
    guard.unlock();
    if (is_leaving) from_->end_(peer_, serial);
  }

  [[nodiscard]] explicit operator bool() const noexcept { return connection_ != nullptr; }
  [[nodiscard]] bulk_connection& connection() noexcept { return *connection_; }
  /// True if the connection was left idle by an earlier copy. Such a connection may have ended
  /// since that copy.
  [[nodiscard]] bool was_idle() const noexcept { return was_idle_; }
  /// Marks the copy as complete, so that the connection can serve another copy.
  void keep() noexcept { is_sound_ = true; }
  /// Marks a put as given up, because the peer may have received a part of the put that it has not
  /// read yet. The peer must refuse that part before a later copy begins.
  void give_up() noexcept { is_given_up_ = true; }

 private:
  /// Counts one waiting copy in peer_state::waiting as long as the object lives. The mutex is held
  /// when the object is made and when it is destroyed.
  struct waiting_count {
    explicit waiting_count(unsigned& waiting) noexcept : count(waiting) { ++count; }
    waiting_count(const waiting_count&) = delete;
    waiting_count& operator=(const waiting_count&) = delete;
    ~waiting_count() { --count; }
    unsigned& count;
  };

  bulk_rma_engine* from_;
  node_id peer_;
  std::shared_ptr<bulk_connection> connection_;
  bool is_sound_ = false;
  bool is_given_up_ = false;
  bool was_idle_ = true;
};

bulk_rma_engine::bulk_rma_engine(std::size_t nodes, connector connect, ender end)
    : peers_(nodes), connect_(std::move(connect)), end_(std::move(end)) {}

bulk_rma_engine::~bulk_rma_engine() = default;

void bulk_rma_engine::admit(node_id peer, const std::vector<memory_window>& windows) {
  const std::lock_guard guard(mutex_);
  if (peer_state* const p = peers_.find_or_make(peer)) p->windows = windows;
}

void bulk_rma_engine::add(node_id peer, std::unique_ptr<stream> connection,
                          std::span<const std::byte> first, std::uint64_t serial) {
  const std::lock_guard guard(mutex_);
  peer_state& p = *peers_.find(peer);
  if (p.awaited == 0 || p.is_gone) return;
  --p.awaited;
  ++p.settled;
  p.idle.push_back(std::make_shared<bulk_connection>(std::move(connection), first, serial));
  changed_.notify_all();
}

void bulk_rma_engine::release(node_id peer, std::uint64_t serial) noexcept {
  const std::lock_guard guard(mutex_);
  std::erase(peers_.find(peer)->leaving, serial);
  changed_.notify_all();
}

void bulk_rma_engine::fail(node_id peer, const std::string& why) {
  const std::lock_guard guard(mutex_);
  peer_state& p = *peers_.find(peer);
  if (p.awaited == 0) return;
  --p.awaited;
  ++p.settled;
  p.why = why;
  changed_.notify_all();
}

std::uint64_t bulk_rma_engine::asked(node_id peer) {
  const std::lock_guard guard(mutex_);
  return peers_.find(peer)->asked;
}

void bulk_rma_engine::fail_late(node_id peer, std::uint64_t asked, const std::string& why) {
  {
    const std::lock_guard guard(mutex_);
    if (peers_.find(peer)->settled >= asked) return;
  }
  fail(peer, why);
}

std::vector<checked_connection> bulk_rma_engine::connections() {
  std::vector<checked_connection> all;
  const std::lock_guard guard(mutex_);
  peers_.for_each([&](node_id peer, const peer_state& p) {
    for (const auto* some : {&p.idle, &p.busy}) {
      for (const auto& c : *some)
        all.push_back({peer, connection_kind::bulk, c->serial(), true, c});
    }
  });
  return all;
}

void bulk_rma_engine::forget(node_id peer) noexcept {
  const std::lock_guard guard(mutex_);
  peer_state* const known = peers_.find(peer);
  if (known == nullptr) return;
  peer_state& p = *known;
  p.is_gone = true;
  p.idle.clear();
  p.leaving.clear();
  // Abort the connections, so that the threads that copy over them see the end and return.
  for (const auto& c : p.busy)
    c->abort();
  changed_.notify_all();
}

std::uint64_t bulk_rma_engine::threshold() const noexcept { return min_bulk; }

bool bulk_rma_engine::is_inside(node_id peer, std::uint64_t address, std::uint64_t bytes) {
  const std::lock_guard guard(mutex_);
  const peer_state* const p = peers_.find(peer);
  return p != nullptr && is_in_window(p->windows, address, bytes);
}

template <class Exchange>
bool bulk_rma_engine::copy(node_id peer, time_point deadline, Exchange exchange) noexcept {
  try {
    for (;;) {
      loan l(*this, peer, deadline);
      if (!l) return false;
      if (exchange(l)) {
        l.keep();
        return true;
      }
      // Repeat the copy if its connection was idle before, because that connection may have ended
      // before this copy. Repeating a put is harmless, because the second attempt waits until the
      // peer refuses the remaining bytes of the first. The loop ends, because the number of idle
      // connections is finite.
      if (!l.was_idle() || clock::now() >= deadline) return false;
      // Close the other idle connections to the peer, because they may have ended, too. Each of
      // them would cost this copy another timeout.
      const std::lock_guard guard(mutex_);
      peers_.find(peer)->idle.clear();
    }
  } catch (const std::exception& e) {
    note_failed_copy(std::string("a bulk copy: ") + e.what());
    return false;
  }
}

bool bulk_rma_engine::put(node_id peer, std::uint64_t to, const std::byte* from,
                          std::uint64_t bytes, time_point deadline) noexcept {
  if (!is_inside(peer, to, bytes)) return false;
  return copy(peer, deadline, [&](loan& l) {
    bulk_request request{bulk_operation::put, 0, to, bytes};
    std::array<iovec, 3> out{l.connection().take_first(), iovec{&request, sizeof request},
                             iovec{const_cast<std::byte*>(from), bytes}};
    bulk_reply reply;
    std::array<iovec, 1> in{iovec{&reply, sizeof reply}};
    if (transfer(l.connection(), false, deadline).run(out) &&
        transfer(l.connection(), true, deadline).run(in)) {
      return reply.bytes == bytes;
    }
    l.give_up();
    return false;
  });
}

bool bulk_rma_engine::get(node_id peer, std::uint64_t from, std::byte* to, std::uint64_t bytes,
                          time_point deadline) noexcept {
  if (!is_inside(peer, from, bytes)) return false;
  return copy(peer, deadline, [&](loan& l) {
    bulk_request request{bulk_operation::get, 0, from, bytes};
    std::array<iovec, 2> out{l.connection().take_first(), iovec{&request, sizeof request}};
    if (!transfer(l.connection(), false, deadline).run(out)) return false;
    bulk_reply reply;
    std::array<iovec, 1> head{iovec{&reply, sizeof reply}};
    if (!transfer(l.connection(), true, deadline).run(head) || reply.bytes != bytes) return false;
    std::array<iovec, 1> body{iovec{to, bytes}};
    return transfer(l.connection(), true, deadline).run(body);
  });
}

bool bulk_rma_engine::wait_for_leaving(std::unique_lock<std::mutex>& guard, peer_state& p,
                                       time_point deadline) {
  while (!p.leaving.empty()) {
    if (!wait_for_change(guard, deadline)) return false;
  }
  return true;
}

bool bulk_rma_engine::wait_for_change(std::unique_lock<std::mutex>& guard, time_point deadline) {
  if (deadline == no_deadline) {
    changed_.wait(guard);
    return true;
  }
  return changed_.wait_until(guard, deadline) == std::cv_status::no_timeout;
}

bool bulk_rma_engine::settle(node_id peer, time_point deadline) noexcept {
  std::unique_lock guard(mutex_);
  peer_state* const p = peers_.find(peer);
  return p == nullptr || wait_for_leaving(guard, *p, deadline);
}

std::string bulk_rma_engine::failure(node_id peer, std::uint64_t address, std::uint64_t bytes) {
  if (!is_inside(peer, address, bytes)) return {};
  const std::lock_guard guard(mutex_);
  return peers_.find(peer)->failure;
}

void bulk_rma_engine::note_failure(node_id peer) noexcept {
  const std::lock_guard guard(mutex_);
  peer_state* const p = peers_.find(peer);
  if (p == nullptr) return;
  // Copies need not wait for the remaining bytes of earlier puts any more, because nobody uses the
  // memory of a node that has failed.
  p->has_failed = true;
  p->leaving.clear();
  changed_.notify_all();
}

} // namespace farcall::tcp
