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

constexpr std::size_t largest_body = std::size_t{64} << 10;
/// A side that does not take what it is sent is not worth more memory than that.
constexpr std::size_t most_waiting = 1024;
constexpr std::size_t most_waiting_bytes = std::size_t{4} << 20;
/// Read before others have their turn: whoever sends without end must not keep the thread.
constexpr std::size_t most_at_once = std::size_t{64} << 10;
constexpr std::size_t most_unsent = std::size_t{4} << 20;
/// That a target has said before its end.
constexpr int most_last_messages = 4096;
/// Heartbeats in one heartbeat timeout.
constexpr int signs = 4;
/// A path that is broken for the timeout has the last heartbeat before that up to an interval
/// behind it, and the next one up to a repetition.
std::chrono::milliseconds longest_silence(std::chrono::milliseconds heartbeat_timeout) noexcept {
  return std::min(2 * heartbeat_timeout, heartbeat_timeout + heartbeat_timeout / signs +
                                             tcp::repetition_gap(heartbeat_timeout));
}
/// From the end of a target's socket to that of its process, which may have much memory to give
/// back.
constexpr std::chrono::seconds exit_reason_time{2};
/// Between two attempts to pass on to a near side that has no space.
constexpr std::chrono::milliseconds retry_interval{5};
/// For the far side to take our exit reason, and to end as well.
constexpr std::chrono::seconds parting_time{2};

/// What was said may have been the job's secret.
void forget_front(std::vector<std::byte>& bytes, std::size_t count) noexcept {
  const std::size_t before = bytes.size();
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
  bytes.resize(before);
  wipe(std::span(bytes).last(count));
  bytes.resize(before - count);
}

} // namespace

/// Either socket, for the reactor.
class relay::end_point final : public tcp::event_handler {
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

relay::relay(tcp::reactor& loop, control_socket near, std::unique_ptr<tcp::stream> far,
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
    // Both sides have been silent for as long as it took to come here.
    self->last_received_ = self->last_said_ = self->next_tick_ = clock::now();
    // Something may have come, and been decrypted, before we watched.
    self->on_far();
    self->tick();
  });
}

void relay::tick() {
  if (is_over_ || is_parting_ || last_word_) return;
  const time_point now = clock::now();
  // Time in which this thread did not run, as on a machine that is overloaded, tells nothing about
  // the other side: what has come meanwhile is not read yet.
  last_received_ += now - next_tick_;
  if (now - last_received_ > longest_silence(heartbeat_timeout_)) {
    // Messages that wait in the system must not reach a node that counts as failed.
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
  hears_near_ = false;
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
  return hears_near_ && out_.size() < most_unsent && !is_finishing_;
}

/// Of a socket one message, as the system says again that there are more. Of one in memory nobody
/// does, and only its end is heard while the far side takes nothing.
void relay::on_near() noexcept {
  if (is_over_) return;
  try {
    do {
      if (near_.fd() < 0 && !takes_from_near() && !(hears_near_ && near_.has_ended())) return;
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
  // A process closes its sockets before it counts as ended.
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
  if (is_parting_ || is_far_deaf_) return;
  append(kind, body);
  flush();
}

void relay::flush() noexcept {
  while (!out_.empty() && !is_over_) {
    const iovec rest{out_.data(), out_.size()};
    const tcp::io_result wrote = far_->write({&rest, 1});
    if (wrote.status == tcp::io_status::would_block) break;
    if (wrote.status != tcp::io_status::done) {
      // It may have said why it ends; whoever reads comes to that, and then to the end.
      out_.clear();
      is_far_deaf_ = true;
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

/// Ends the connection so that what was sent arrives: a socket that is closed before everything
/// that came was read breaks the connection off, and takes back what is in flight.
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
  // What the near side said last goes first. Not without end: a child of its may go on.
  try {
    for (int n = 0; !is_finishing_ && n < most_last_messages; ++n) {
      std::optional<control_message> message = near_.receive(clock::now());
      if (!message) break;
      put(message->kind, message->body);
      if (is_over_) return;
    }
  } catch (const std::exception& e) {
    static auto& lines = *new log::limited_log("more targets cannot be read at their end");
    lines.warning(std::string("the last words of a target cannot be read: ") + e.what());
  }
  is_finishing_ = true;
  put(kind, body);
}

// ---- from far to near ---------------------------------------------------------------------------

void relay::on_far() noexcept {
  try {
    flush();
    std::array<std::byte, 16384> piece;
    for (std::size_t taken = 0; !is_over_ && has_room_for_near();) {
      if (taken >= most_at_once) {
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
    if (!self->is_over_ && !self->last_word_) self->on_far();
  });
}

bool relay::has_room_for_near() const noexcept {
  return for_near_.size() < most_waiting && for_near_bytes_ < most_waiting_bytes;
}

/// What it said last, such as why it ends, may wait for space at the near side.
void relay::on_far_end(const std::string& why) {
  if (for_near_.empty()) {
    end(why);
    return;
  }
  is_far_deaf_ = true;
  loop_->remove(far_->fd());
  last_word_ = why;
  loop_->at(clock::now() + heartbeat_timeout_,
            [self = shared_from_this()] { self->end(*self->last_word_); });
}

void relay::take_frames() {
  std::size_t at = 0;
  while (in_.size() - at >= sizeof(frame_header)) {
    frame_header header;
    std::memcpy(&header, in_.data() + at, sizeof header);
    if (header.bytes > largest_body) throw malformed_message("it sent an impossible message");
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
    if (!self->last_word_) {
      self->on_far();
    } else if (self->for_near_.empty()) {
      self->end(*self->last_word_);
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
  std::uint32_t far_events = has_room_for_near() ? readable : 0U;
  if (!out_.empty()) far_events |= far_->write_wants_read() ? readable : writable;
  watch(far_->fd(), far_events, far_events_);
  if (near_.fd() >= 0) {
    watch(near_.fd(), takes_from_near() ? readable : 0U, near_events_);
  } else if (takes_from_near() && near_.is_ready()) {
    look_near_soon();
  }
}

/// The system tells of a side that has gone whatever it was asked for, and would again and again
/// while there is no space for what that side has said.
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
  // Both sockets end with the last reference; the far side waits for that.
  far_.reset();
}

} // namespace farcall
