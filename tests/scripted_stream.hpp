// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/stream.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/eventfd.h>

namespace farcall::test {

/// A connection whose peer is the test: reads return the peer's bytes in pieces of given lengths.
class scripted_stream final : public tcp::stream {
 public:
  /// `pieces` has the length of each read's piece, repeated from the beginning; none is 0.
  scripted_stream(std::vector<std::byte> request_context, std::vector<std::size_t> pieces)
      : stream(unique_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
        request_context_(std::move(request_context)), pieces_(std::move(pieces)) {}

  tcp::io_result read(std::span<const iovec> parts) noexcept override {
    if (at_ == request_context_.size() && meanwhile_) {
      std::exchange(meanwhile_, {})();
      is_established_ = true;
    }
    if (at_ == request_context_.size())
      return {ends_ ? tcp::io_status::closed : tcp::io_status::would_block, 0};
    std::size_t left = std::min(pieces_[next_++ % pieces_.size()], request_context_.size() - at_);
    std::size_t got = 0;
    for (const iovec& part : parts) {
      const std::size_t bytes = std::min(left, part.iov_len);
      std::memcpy(part.iov_base, request_context_.data() + at_, bytes);
      at_ += bytes;
      got += bytes;
      left -= bytes;
    }
    return {tcp::io_status::done, got};
  }
  tcp::io_result write(std::span<const iovec> parts) noexcept override {
    if (!is_established_) return {tcp::io_status::would_block, 0};
    std::size_t put = 0;
    for (const iovec& part : parts)
      put += part.iov_len;
    written_ += put;
    return {tcp::io_status::done, put};
  }
  void finish() noexcept override {}
  bool read_wants_write() const noexcept override { return false; }
  bool write_wants_read() const noexcept override { return !is_established_; }
  bool has_buffered() const noexcept override { return false; }
  std::string failure() const override { return ""; }
  bool was_broken_off() const noexcept override { return false; }
  bool is_established() const noexcept override { return is_established_; }

  /// Lets the peer close the connection after the last piece, in place of being silent.
  void end() noexcept { ends_ = true; }

  /// Begins a handshake: writes are refused until a read has ended it.
  void begin_handshake() noexcept { is_established_ = false; }
  /// Lets the first read after the last piece end the handshake. The read calls `meanwhile` first.
  void end_handshake(std::function<void()> meanwhile) { meanwhile_ = std::move(meanwhile); }

  [[nodiscard]] std::size_t written() const noexcept { return written_; }

 private:
  std::vector<std::byte> request_context_;
  std::vector<std::size_t> pieces_;
  std::size_t at_ = 0;
  std::size_t next_ = 0;
  bool ends_ = false;
  std::atomic<bool> is_established_{true};
  std::function<void()> meanwhile_;
  std::atomic<std::size_t> written_{0};
};

} // namespace farcall::test
