#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/stream.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/eventfd.h>

namespace farcall::fuzz {

/// The other side of a connection in memory.
struct other_side {
  std::vector<std::byte> sent;              ///< by it, ever
  std::size_t read = 0;                     ///< of that, by the side that is fuzzed
  std::vector<std::byte> heard;             ///< from that side, ever
  std::size_t space = std::size_t{1} << 20; ///< for what it hears
  bool has_ended = false;                   ///< it sends no more
  bool has_broken_off = false;
  bool was_finished = false; ///< the side that is fuzzed sends no more

  void send(std::span<const std::byte> bytes) {
    if (!has_ended) sent.insert(sent.end(), bytes.begin(), bytes.end());
  }
};

/// A connection to another side in this thread. Reactors always find it ready: making what they
/// would have to wait for costs more than all else.
class memory_stream final : public tcp::stream {
 public:
  explicit memory_stream(std::shared_ptr<other_side> to)
      : stream(unique_fd(always_ready())), to_(std::move(to)) {}

  tcp::io_result read(std::span<const iovec> parts) noexcept override {
    if (to_->has_broken_off) return {tcp::io_status::failed, 0};
    std::size_t got = 0;
    for (const iovec& part : parts) {
      const std::size_t bytes = std::min(to_->sent.size() - to_->read, part.iov_len);
      if (bytes != 0) std::memcpy(part.iov_base, to_->sent.data() + to_->read, bytes);
      to_->read += bytes;
      got += bytes;
    }
    if (got != 0) return {tcp::io_status::done, got};
    return {to_->has_ended ? tcp::io_status::closed : tcp::io_status::would_block, 0};
  }
  tcp::io_result write(std::span<const iovec> parts) noexcept override {
    if (to_->has_broken_off) return {tcp::io_status::failed, 0};
    if (to_->was_finished) std::abort();
    std::size_t put = 0;
    for (const iovec& part : parts) {
      const std::size_t bytes = std::min(to_->space, part.iov_len);
      const auto* const from = static_cast<const std::byte*>(part.iov_base);
      to_->heard.insert(to_->heard.end(), from, from + bytes);
      to_->space -= bytes;
      put += bytes;
    }
    return {put != 0 ? tcp::io_status::done : tcp::io_status::would_block, put};
  }
  void finish() noexcept override { to_->was_finished = true; }
  bool read_wants_write() const noexcept override { return false; }
  bool write_wants_read() const noexcept override { return false; }
  bool has_buffered() const noexcept override { return false; }
  std::string failure() const override { return "it has failed"; }
  bool was_broken_off() const noexcept override { return to_->has_broken_off; }
  bool is_established() const noexcept override { return true; }

 private:
  /// A number of its own for the one descriptor that is always ready.
  static int always_ready() {
    static const int one = ::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    const int number = ::fcntl(one, F_DUPFD_CLOEXEC, 0);
    if (number < 0) std::abort();
    return number;
  }

  std::shared_ptr<other_side> to_;
};

} // namespace farcall::fuzz
