// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/limited_log.hpp>
#include <farcall/transport/tcp/stream_forwarder.hpp>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace farcall::tcp {
namespace {

/// Size of the buffer of one direction, which is enough for a path of 1 Gbit/s and 1 ms.
constexpr std::size_t max_waiting = std::size_t{128} << 10;
/// Limit of the bytes moved before the loop's other events are served.
constexpr std::size_t slice = std::size_t{1} << 20;

/// One direction of a forwarded connection, with the buffer of this direction.
class direction {
 public:
  direction(stream& from, stream& to, std::span<const std::byte> first)
      : from_(&from), to_(&to), bytes_(max_waiting), end_(first.size()) {
    std::copy(first.begin(), first.end(), bytes_.begin());
  }

  /// Moves the bytes that are available, but stops after about `slice` bytes, so that the loop's
  /// other events are served.
  void move() noexcept {
    for (std::size_t moved = 0; moved < slice;) {
      const std::size_t before = moved;
      write(moved);
      read(moved);
      if (moved == before) return;
    }
    has_more_ = true;
  }

  [[nodiscard]] bool has_ended() const noexcept { return is_finished_; }
  /// True if a whole slice was moved, so that more bytes can be moved at once.
  [[nodiscard]] bool has_more() noexcept { return std::exchange(has_more_, false); }
  [[nodiscard]] bool waits_to_read() const noexcept { return !is_over_ && end_ < bytes_.size(); }
  [[nodiscard]] bool waits_to_write() const noexcept { return begin_ != end_; }

 private:
  void write(std::size_t& moved) noexcept {
    while (begin_ != end_ && !is_closed_) {
      const iovec rest{bytes_.data() + begin_, end_ - begin_};
      const io_result put = to_->write({&rest, 1});
      if (put.status == io_status::would_block) return;
      if (put.status != io_status::done) {
        is_closed_ = true;
        break;
      }
      begin_ += put.bytes;
      moved += put.bytes;
    }
    begin_ = end_ = 0;
    if (!is_over_ || std::exchange(is_finished_, true)) return;
    // If the source's connection is broken, break the connection to the destination, too. An
    // orderly close would tell the destination that all bytes have arrived.
    if (is_cut_) {
      (void)::shutdown(to_->fd(), SHUT_WR);
    } else {
      to_->finish();
    }
  }

  void read(std::size_t& moved) noexcept {
    if (!waits_to_read()) return;
    const iovec space{bytes_.data() + end_, bytes_.size() - end_};
    const io_result got = from_->read({&space, 1});
    if (got.status == io_status::would_block) return;
    if (got.status == io_status::done) {
      end_ += got.bytes;
      moved += got.bytes;
      return;
    }
    is_over_ = true;
    is_cut_ = got.status != io_status::closed;
    ++moved; // count the end as progress, so that the loop passes it on
  }

  stream* from_;
  stream* to_;
  std::vector<std::byte> bytes_;
  std::size_t begin_ = 0;  ///< first buffered byte
  std::size_t end_;        ///< position behind the last buffered byte
  bool is_over_ = false;   ///< no more bytes arrive
  bool is_cut_ = false;    ///< true if `from_` has ended without an orderly close
  bool is_closed_ = false; ///< true if `to_` takes no more bytes, so that bytes are dropped
  bool is_finished_ = false;
  bool has_more_ = false;
};

class stream_forwarder final : public event_handler,
                               public std::enable_shared_from_this<stream_forwarder> {
 public:
  stream_forwarder(event_loop& loop, forwarded_end a, forwarded_end b)
      : loop_(&loop), a_(std::move(a.connection)), b_(std::move(b.connection)),
        to_b_(*a_, *b_, b.first), to_a_(*b_, *a_, a.first) {}

  void start() {
    loop_->add(a_->fd(), EPOLLONESHOT, shared_from_this());
    loop_->add(b_->fd(), EPOLLONESHOT, shared_from_this());
    on_event(0);
  }

  void on_event(std::uint32_t /*events*/) noexcept override {
    if (is_over_) return;
    to_a_.move();
    to_b_.move();
    // Move once more in the first direction. During a handshake, this direction may have waited for
    // bytes of its destination that the other direction has just read.
    to_a_.move();
    if (to_a_.has_ended() && to_b_.has_ended()) {
      is_over_ = true;
      loop_->remove(a_->fd());
      loop_->remove(b_->fd());
      return;
    }
    const bool has_more_for_a = to_a_.has_more();
    const bool has_more_for_b = to_b_.has_more();
    if (has_more_for_a || has_more_for_b) {
      try {
        loop_->post([self = shared_from_this()] { self->on_event(0); });
      } catch (const std::bad_alloc&) {
        static auto& lines = *new log::limited_log("more connections found no memory");
        lines.error("out of memory while passing on a connection");
      }
    }
    watch(*a_, to_b_, to_a_);
    watch(*b_, to_a_, to_b_);
  }

 private:
  /// Requests one event for each socket that the directions wait for. EPOLLONESHOT makes epoll
  /// report each requested event only once. Without it, epoll would report the end of a connection
  /// again and again.
  void watch(const stream& s, const direction& reads, const direction& writes) noexcept {
    std::uint32_t events = 0;
    if (reads.waits_to_read()) events |= s.read_wants_write() ? EPOLLIN | EPOLLOUT : EPOLLIN;
    if (writes.waits_to_write()) events |= s.write_wants_read() ? EPOLLIN : EPOLLOUT;
    if (events != 0) loop_->modify(s.fd(), events | EPOLLONESHOT);
  }

  event_loop* loop_;
  std::unique_ptr<stream> a_;
  std::unique_ptr<stream> b_;
  direction to_b_;
  direction to_a_;
  bool is_over_ = false;
};

} // namespace

void forward_streams(event_loop& loop, forwarded_end a, forwarded_end b) {
  const auto made = std::make_shared<stream_forwarder>(loop, std::move(a), std::move(b));
  loop.post([made] { made->start(); });
}

} // namespace farcall::tcp
