// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/wipe.hpp>
#include <farcall/transport/tcp/relay.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include <sys/epoll.h>
#include <sys/uio.h>

namespace farcall {
namespace {

constexpr std::size_t max_body = std::size_t{64} << 10;
/// Limits of the messages that wait to be sent to the near side. The limits bound the memory that
/// is needed for a near side that does not read.
constexpr std::size_t max_waiting = 1024;
constexpr std::size_t max_waiting_bytes = std::size_t{4} << 20;
/// Limit of the bytes read in one iteration, so that a peer that sends without pause does not
/// starve the loop's other events.
constexpr std::size_t max_at_once = std::size_t{64} << 10;
constexpr std::size_t max_unsent = std::size_t{4} << 20;
/// Limit of the messages that the relay still reads from a target after the target has ended.
constexpr int max_last_messages = 4096;
/// Number of heartbeats in one heartbeat timeout.
constexpr int signs = 4;
/// Returns the longest silence of the far side that a path may cause if it is broken for less than
/// the heartbeat timeout; at most twice that timeout. The silence begins with the last heartbeat
/// before the break, which arrives up to one heartbeat interval earlier. It ends with the first
/// heartbeat after the path has recovered, which may arrive one retransmission later.
std::chrono::milliseconds max_silence(std::chrono::milliseconds heartbeat_timeout) noexcept {
  return std::min(2 * heartbeat_timeout, heartbeat_timeout + heartbeat_timeout / signs +
                                             tcp::repetition_gap(heartbeat_timeout));
}
/// Longest time for which the relay waits for the exit reason after the socket of a target has
/// ended. The process of the target may first have to free much memory.
constexpr std::chrono::seconds exit_reason_time{2};
/// Pause before the relay tries again to send to a near side that had no space.
constexpr std::chrono::milliseconds retry_interval{5};
/// Time for which the relay waits, after its last message, until the far side has received the
/// message and closed its end.
constexpr std::chrono::seconds parting_time{2};

/// Removes `count` bytes from the front, and overwrites them in memory, because a message may
/// contain the job's key.
void forget_front(std::vector<std::byte>& bytes, std::size_t count) noexcept {
  const std::size_t before = bytes.size();
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
  bytes.resize(before);
  wipe(std::span(bytes).last(count));
  bytes.resize(before - count);
}

} // namespace

/// Handler for the events of one of the relay's two sockets. It calls the member function `what` of
/// the relay.
class relay::end_point final : public event_handler {
 public:
  end_point(std::weak_ptr<relay> owner, void (relay::*what)() noexcept)
      : owner_(std::move(owner)), what_(what) {}
  void on_event(std::uint32_t /*events*/) noexcept override {
    if (const auto owner = owner_.lock()) (owner.get()->*what_)();
  }

 private:
  std::weak_ptr<relay> owner_;
  void (relay::*what_)() noexcept;
};

relay::relay(event_loop& loop, control_socket near, std::unique_ptr<tcp::stream> far,
             std::chrono::milliseconds heartbeat_timeout, end_handler on_end)
    : loop_(&loop), near_(std::move(near)), far_(std::move(far)),
      heartbeat_timeout_(heartbeat_timeout), on_end_(std::move(on_end)),
      last_received_(clock::now()), last_said_(clock::now()) {
  near_.close_on_fork();
}

relay::~relay() = default;

void relay::start() {
  loop_->post([self = shared_from_this()] {
    if (self->is_over_) return;
    self->watch_near();
    self->loop_->add(self->far_->fd(), EPOLLIN, std::make_shared<end_point>(self, &relay::on_far));
    tcp::limit_repetition_gap(self->far_->fd(), self->heartbeat_timeout_);
    // Begin to measure now how long each side is silent.
    self->last_received_ = self->last_said_ = self->next_tick_ = clock::now();
    // Read at once, because bytes may have arrived, and been decrypted, before the loop watched the
    // socket.
    self->on_far();
    self->tick();
  });
}

void relay::tick() {
  if (is_over_ || is_parting_ || exit_reason_) return;
  const time_point now = clock::now();
  // Discount the time in which this thread did not run, for instance because the machine is
  // overloaded: bytes that have arrived in this time were not read yet.
  last_received_ += now - next_tick_;
  if (now - last_received_ > max_silence(heartbeat_timeout_)) {
    // Abort the connection, because undelivered messages must not reach a node that counts as
    // failed.
    tcp::abort_connection(far_->fd());
    end("it was silent for " + std::to_string(heartbeat_timeout_.count()) + " ms");
    return;
  }
  if (now - last_said_ >= heartbeat_timeout_ / signs && out_.empty()) put(control{}, {});
  next_tick_ = now + heartbeat_timeout_ / (2 * signs);
  loop_->at(next_tick_, [self = shared_from_this()] { self->tick(); });
}

// ---- from near to far ---------------------------------------------------------------------------

void relay::watch_near() {
  if (near_.fd() >= 0) {
    loop_->add(near_.fd(), EPOLLIN,
               std::make_shared<end_point>(shared_from_this(), &relay::on_near));
    return;
  }
  near_.on_arrival([loop = loop_, weak = weak_from_this()] {
    loop->post([weak] {
      if (const auto self = weak.lock()) self->on_near();
    });
  });
}

void relay::ignore_near() noexcept {
  reads_near_ = false;
  loop_->remove(near_.fd());
}

void relay::look_near_soon() {
  if (std::exchange(is_looking_near_soon_, true)) return;
  loop_->post([self = shared_from_this()] {
    self->is_looking_near_soon_ = false;
    self->on_near();
  });
}

bool relay::takes_from_near() const noexcept {
  return reads_near_ && out_.size() < max_unsent && !is_finishing_;
}

/// If the near side is a system socket, takes one message, because epoll calls again for further
/// messages. If the near side is a socket in memory, takes all messages, because each of them
/// causes one call only. While the far side takes no bytes, leaves the messages of a socket in
/// memory there until that socket has ended.
void relay::on_near() noexcept {
  if (is_over_) return;
  try {
    do {
      if (near_.fd() < 0 && !takes_from_near() && !(reads_near_ && near_.has_ended())) return;
      std::optional<control_message> message = near_.receive(clock::now());
      if (!message) {
        if (near_.is_ready()) on_near_end();
        return;
      }
      if (!takes_near_ || !takes_near_(message->kind, message->body))
        put(message->kind, message->body);
      forget_front(message->body, message->body.size());
    } while (!is_over_ && near_.fd() < 0 && near_.is_ready());
  } catch (const std::exception& e) {
    end(e.what());
  }
}

void relay::on_near_end() noexcept {
  if (!awaits_exit_reason_) {
    end("");
    return;
  }
  // Wait a while for the exit reason: the target's sockets are closed before the server can collect
  // the exit status of its process.
  ignore_near();
  try {
    loop_->at(clock::now() + exit_reason_time, [self = shared_from_this()] { self->end(""); });
  } catch (const std::exception& e) {
    end(e.what());
  }
}

void relay::append(control kind, std::span<const std::byte> body) {
  const frame_header header{static_cast<std::uint32_t>(body.size()),
                            static_cast<std::uint32_t>(kind)};
  const auto head = std::as_bytes(std::span(&header, 1));
  out_.insert(out_.end(), head.begin(), head.end());
  out_.insert(out_.end(), body.begin(), body.end());
}

void relay::put(control kind, std::span<const std::byte> body) {
  if (is_parting_ || is_far_closed_) return;
  append(kind, body);
  flush();
}

void relay::flush() noexcept {
  while (!out_.empty() && !is_over_) {
    const iovec rest{out_.data(), out_.size()};
    const tcp::io_result wrote = far_->write({&rest, 1});
    if (wrote.status == tcp::io_status::would_block) break;
    if (wrote.status != tcp::io_status::done) {
      // Go on reading from the far side, because it may have sent the reason for its end before it
      // closed its end of the connection.
      out_.clear();
      is_far_closed_ = true;
      break;
    }
    forget_front(out_, wrote.bytes);
    last_said_ = clock::now();
  }
  if (is_over_) return;
  if (is_finishing_ && out_.empty()) {
    part();
  } else {
    watch();
  }
}

/// Ends the connection to the far side so that all sent bytes arrive there: ends sending, and then
/// waits for the end of the far side. Closing the socket while bytes are unread would reset the
/// connection, and would discard the bytes in flight.
void relay::part() noexcept {
  if (is_parting_) return;
  is_parting_ = true;
  far_->finish();
  try {
    loop_->at(clock::now() + parting_time, [self = shared_from_this()] { self->end(""); });
    ignore_near();
    for_near_.clear();
    for_near_bytes_ = 0;
    loop_->modify(far_->fd(), EPOLLIN);
  } catch (const std::exception& e) {
    end(e.what());
  }
}

void relay::send_far(control kind, std::span<const std::byte> body) {
  if (!is_over_) put(kind, body);
}

void relay::finish_far(control kind, std::span<const std::byte> body) {
  if (is_over_) return;
  // First send the last messages of the near side. Their number is limited, because a child of the
  // target's process may go on sending messages.
  try {
    for (int n = 0; !is_finishing_ && n < max_last_messages; ++n) {
      std::optional<control_message> message = near_.receive(clock::now());
      if (!message) break;
      put(message->kind, message->body);
      if (is_over_) return;
    }
  } catch (const std::exception& e) {
    static auto& lines = *new log::limited_log("more targets cannot be read at their end");
    lines.warning(std::string("the last messages of a target cannot be read: ") + e.what());
  }
  is_finishing_ = true;
  put(kind, body);
}

// ---- from far to near ---------------------------------------------------------------------------

void relay::on_far() noexcept {
  try {
    flush();
    std::array<std::byte, 16384> piece;
    for (std::size_t taken = 0; !is_over_ && has_space_for_near();) {
      if (taken >= max_at_once) {
        look_far_soon();
        break;
      }
      const iovec part{piece.data(), piece.size()};
      const tcp::io_result got = far_->read({&part, 1});
      if (got.status == tcp::io_status::would_block) break;
      if (got.status != tcp::io_status::done) {
        on_far_end(got.status == tcp::io_status::closed ? "" : far_->failure());
        return;
      }
      taken += got.bytes;
      if (is_parting_) continue;
      last_received_ = clock::now();
      in_.insert(in_.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(got.bytes));
      wipe(std::span(piece).first(got.bytes));
      take_frames();
    }
    if (!is_over_ && !is_parting_) watch();
  } catch (const std::exception& e) {
    end(e.what());
  }
}

void relay::look_far_soon() {
  if (std::exchange(is_looking_far_soon_, true)) return;
  loop_->post([self = shared_from_this()] {
    self->is_looking_far_soon_ = false;
    if (!self->is_over_ && !self->exit_reason_) self->on_far();
  });
}

bool relay::has_space_for_near() const noexcept {
  return for_near_.size() < max_waiting && for_near_bytes_ < max_waiting_bytes;
}

/// Handles the end of the far side. The last messages from it, such as the reason why it has ended,
/// may still wait for space at the near side; the relay then ends after they were sent, or after
/// the heartbeat timeout.
void relay::on_far_end(const std::string& why) {
  if (for_near_.empty()) {
    end(why);
    return;
  }
  is_far_closed_ = true;
  loop_->remove(far_->fd());
  exit_reason_ = why;
  loop_->at(clock::now() + heartbeat_timeout_,
            [self = shared_from_this()] { self->end(*self->exit_reason_); });
}

void relay::take_frames() {
  std::size_t at = 0;
  while (in_.size() - at >= sizeof(frame_header)) {
    frame_header header;
    std::memcpy(&header, in_.data() + at, sizeof header);
    if (header.bytes > max_body) throw malformed_message("it sent an impossible message");
    if (in_.size() - at - sizeof header < header.bytes) break;
    const auto body = std::span(in_).subspan(at + sizeof header, header.bytes);
    at += sizeof header + header.bytes;
    if (header.kind == 0) continue;
    if (takes_ && takes_(static_cast<control>(header.kind), body)) continue;
    control_message message;
    message.kind = static_cast<control>(header.kind);
    message.body.assign(body.begin(), body.end());
    for_near_bytes_ += message.body.size();
    for_near_.push_back(std::move(message));
  }
  forget_front(in_, at);
  pass_on();
}

void relay::pass_on() {
  while (!for_near_.empty()) {
    if (!near_.try_send(for_near_.front().kind, for_near_.front().body)) {
      retry_later();
      return;
    }
    for_near_bytes_ -= for_near_.front().body.size();
    forget_front(for_near_.front().body, for_near_.front().body.size());
    for_near_.pop_front();
  }
}

void relay::retry_later() {
  if (std::exchange(is_retrying_, true)) return;
  loop_->at(clock::now() + retry_interval, [self = shared_from_this()] {
    self->is_retrying_ = false;
    if (self->is_over_ || self->is_parting_) return;
    self->pass_on();
    if (!self->exit_reason_) {
      self->on_far();
    } else if (self->for_near_.empty()) {
      self->end(*self->exit_reason_);
    }
  });
}

bool relay::send_near(control kind, std::span<const std::byte> body, std::span<const int> files) {
  return !is_over_ && near_.send(kind, body, files, clock::now());
}

// ---- both ---------------------------------------------------------------------------------------

void relay::watch() noexcept {
  constexpr std::uint32_t readable = EPOLLIN;
  constexpr std::uint32_t writable = EPOLLOUT;
  std::uint32_t far_events = has_space_for_near() ? readable : 0U;
  if (!out_.empty()) far_events |= far_->write_wants_read() ? readable : writable;
  watch(far_->fd(), far_events, far_events_);
  if (near_.fd() >= 0) {
    watch(near_.fd(), takes_from_near() ? readable : 0U, near_events_);
  } else if (takes_from_near() && near_.is_ready()) {
    look_near_soon();
  }
}

/// Sets the events that are requested for a socket. If no events are requested, epoll still reports
/// a hangup, and would do so again and again until the other side has space. EPOLLONESHOT limits
/// this to one report.
void relay::watch(int fd, std::uint32_t events, std::uint32_t& before) noexcept {
  if (events == 0 && before == 0) return;
  loop_->modify(fd, events == 0 ? static_cast<std::uint32_t>(EPOLLONESHOT) : events);
  before = events;
}

void relay::end(const std::string& why) noexcept {
  if (is_over_) return;
  is_over_ = true;
  loop_->remove(near_.fd());
  loop_->remove(far_->fd());
  if (const end_handler on_end = std::exchange(on_end_, {})) on_end(near_, why);
  near_.close();
  far_->finish();
  // Close the far socket now, because the far side waits for that. Otherwise it would stay open
  // until the last reference to the relay is released.
  far_.reset();
}

} // namespace farcall
