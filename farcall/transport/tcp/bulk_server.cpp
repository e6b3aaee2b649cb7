// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/limited_log.hpp>
#include <farcall/transport/tcp/bulk.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include <sched.h>
#include <sys/epoll.h>
#include <sys/uio.h>

namespace farcall::tcp {
namespace {

/// Logs a refused request at a limited rate, because peers can cause refusals as often as they
/// like.
void note_refusal() noexcept {
  try {
    // The object is never destroyed, because the loop's thread may still use it after static
    // objects were destroyed.
    static auto* const refusals = new log::limited_log("more such requests");
    refusals->warning(
        "a peer asks for a copy of memory that is not shared; its connection is closed");
  } catch (const std::exception&) {
    // Logging fails if memory is exhausted; continue without it.
  }
}

class bulk_server final : public event_handler,
                          public bulk_service,
                          public std::enable_shared_from_this<bulk_server> {
 public:
  bulk_server(event_loop& loop, std::unique_ptr<stream> connection,
              std::vector<memory_window> windows, std::span<const std::byte> first)
      : loop_(&loop), connection_(std::move(connection)), windows_(std::move(windows)),
        first_(first.begin(), first.end()), slice_(pace_of(*connection_).slice),
        stage_(first.empty() ? stage::request : stage::greeting) {}

  void start() {
    if (is_revoked_) return;
    is_started_ = true;
    loop_->add(connection_->fd(), EPOLLIN, shared_from_this());
    // Look for a request at once, because the first one may have arrived together with the connect
    // request.
    on_event(EPOLLIN);
  }

  void revoke() noexcept override {
    if (std::exchange(is_revoked_, true)) return;
    loop_->remove(connection_->fd());
    abort_connection(connection_->fd());
  }

  [[nodiscard]] bool is_open() const noexcept override {
    return is_started_ && !is_revoked_ && !has_ended_;
  }
  [[nodiscard]] stream_position position() noexcept override {
    return {sent_, received_, !reads(), is_in_flight(connection_->fd())};
  }
  void take_in() noexcept override {
    if (is_open()) on_event(EPOLLIN);
  }
  void end_connection() noexcept override { revoke(); }

  void on_event(std::uint32_t /*events*/) noexcept override {
    if (is_revoked_ || has_ended_) return;
    std::uint64_t moved = 0;
    while (moved < slice_) {
      const io_result result = step();
      if (result.status == io_status::would_block) {
        watch();
        return;
      }
      if (result.status != io_status::done) {
        has_ended_ = true;
        loop_->remove(connection_->fd());
        return;
      }
      moved += result.bytes;
      loop_->expect_more();
    }
    // Run this handler again if bytes are buffered inside the stream, because epoll reports only
    // the bytes that are left in the socket.
    if (connection_->has_buffered()) {
      loop_->post([self = shared_from_this()] { self->on_event(EPOLLIN); });
    } else {
      watch();
    }
    // Yield the CPU, because threads that serve messages may share it.
    ::sched_yield();
  }

 private:
  enum class stage : std::uint8_t { greeting, request, bytes_in, reply, bytes_out };

  [[nodiscard]] bool reads() const noexcept {
    return stage_ == stage::request || stage_ == stage::bytes_in;
  }

  io_result step() noexcept {
    switch (stage_) {
    case stage::greeting:
      return write_first();
    case stage::request:
      return read_request();
    case stage::bytes_in:
      return fill_window();
    case stage::reply:
    case stage::bytes_out:
      return send_window();
    }
    return {io_status::failed, 0};
  }

  io_result write_first() noexcept {
    const iovec rest{first_.data() + done_, first_.size() - done_};
    const io_result put = connection_->write({&rest, 1});
    if (put.status != io_status::done) return put;
    done_ += put.bytes;
    if (done_ == first_.size()) {
      done_ = 0;
      stage_ = stage::request;
    }
    return put;
  }

  io_result read_request() noexcept {
    const iovec rest{reinterpret_cast<std::byte*>(&request_) + done_, sizeof request_ - done_};
    const io_result got = connection_->read({&rest, 1});
    if (got.status != io_status::done) return got;
    received_ += got.bytes;
    done_ += got.bytes;
    if (done_ < sizeof request_) return got;
    if (!is_in_window(windows_, request_.address, request_.bytes) ||
        (request_.operation != bulk_operation::put && request_.operation != bulk_operation::get)) {
      note_refusal();
      return {io_status::failed, 0};
    }
    reply_.bytes = request_.bytes;
    done_ = 0;
    stage_ = request_.operation == bulk_operation::put && request_.bytes != 0 ? stage::bytes_in
                                                                              : stage::reply;
    return got;
  }

  io_result fill_window() noexcept {
    const iovec rest{reinterpret_cast<std::byte*>(request_.address + done_),
                     std::min<std::uint64_t>(request_.bytes - done_, slice_)};
    const io_result got = connection_->read({&rest, 1});
    if (got.status != io_status::done) return got;
    received_ += got.bytes;
    done_ += got.bytes;
    if (done_ == request_.bytes) {
      done_ = 0;
      stage_ = stage::reply;
    }
    return got;
  }

  io_result send_window() noexcept {
    std::array<iovec, 2> parts{};
    std::size_t count = 0;
    if (stage_ == stage::reply) {
      parts[count++] = {reinterpret_cast<std::byte*>(&reply_) + done_, sizeof reply_ - done_};
    }
    const std::uint64_t of_bytes = stage_ == stage::bytes_out ? done_ : 0;
    const bool has_bytes = request_.operation == bulk_operation::get;
    if (has_bytes) {
      parts[count++] = {reinterpret_cast<std::byte*>(request_.address + of_bytes),
                        std::min<std::uint64_t>(request_.bytes - of_bytes, slice_)};
    }
    const io_result put = connection_->write({parts.data(), count});
    if (put.status != io_status::done) return put;
    sent_ += put.bytes;
    done_ += put.bytes;
    if (stage_ == stage::reply && done_ >= sizeof reply_) {
      done_ -= sizeof reply_;
      stage_ = stage::bytes_out;
    }
    if (stage_ == stage::bytes_out && (!has_bytes || done_ == request_.bytes)) {
      done_ = 0;
      stage_ = stage::request;
    }
    return put;
  }

  void watch() noexcept {
    const bool writes = !reads();
    std::uint32_t events = writes ? EPOLLOUT : EPOLLIN;
    if (writes && connection_->write_wants_read()) events = EPOLLIN;
    if (!writes && connection_->read_wants_write()) events |= EPOLLOUT;
    if (events == events_) return;
    events_ = events;
    loop_->modify(connection_->fd(), events);
  }

  event_loop* loop_;
  std::unique_ptr<stream> connection_;
  std::vector<memory_window> windows_;
  std::vector<std::byte> first_;
  /// Limit of the bytes that one call of the event handler moves, so that other events and threads
  /// are served.
  std::uint64_t slice_;
  stage stage_;
  std::uint64_t done_ = 0; ///< number of bytes moved in the current stage
  bulk_request request_;
  bulk_reply reply_;
  std::uint32_t events_ = EPOLLIN;
  std::uint64_t sent_ = 0;     ///< number of bytes sent, without the bytes of `first_`
  std::uint64_t received_ = 0; ///< number of bytes received, without the connect request
  bool is_started_ = false;
  bool is_revoked_ = false;
  bool has_ended_ = false;
};

} // namespace

std::shared_ptr<bulk_service> serve_bulk(event_loop& loop, std::unique_ptr<stream> connection,
                                         std::vector<memory_window> windows,
                                         std::span<const std::byte> first) {
  auto made = std::make_shared<bulk_server>(loop, std::move(connection), std::move(windows), first);
  loop.post([made] { made->start(); });
  return made;
}

} // namespace farcall::tcp
