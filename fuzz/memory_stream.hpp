// SPDX-License-Identifier: Apache-2.0
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

/// The peer's side of a connection in memory.
struct other_side {
  std::vector<std::byte> sent;              ///< all bytes that the peer has sent
  std::size_t read = 0;                     ///< bytes of `sent` that the fuzzed side has read
  std::vector<std::byte> received;          ///< all bytes received from the fuzzed side
  std::size_t space = std::size_t{1} << 20; ///< bytes that the peer still accepts
  bool has_ended = false;                   ///< the peer has closed its sending side
  bool has_broken_off = false;
  bool was_finished = false; ///< the fuzzed side has closed its sending side

  void send(std::span<const std::byte> bytes) {
    if (!has_ended) sent.insert(sent.end(), bytes.begin(), bytes.end());
  }
};

/// A connection to a peer simulated in this thread. Its descriptor is always ready, since making
/// it wait for events costs more than the rest of a test.
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
      to_->received.insert(to_->received.end(), from, from + bytes);
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
  /// Returns a duplicate of the shared descriptor, which is always ready.
  static int always_ready() {
    static const int one = ::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    const int number = ::fcntl(one, F_DUPFD_CLOEXEC, 0);
    if (number < 0) std::abort();
    return number;
  }

  std::shared_ptr<other_side> to_;
};

} // namespace farcall::fuzz
