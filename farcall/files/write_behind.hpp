// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/files/host_requests.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>

namespace farcall::files {

/// Sends writes to one file to the host, and lets the program go on before the host has done them,
/// like an NFS client. The host does the writes in order. After a write has failed, the host does
/// no further write until the program was told the error. Not thread-safe.
class write_behind {
 public:
  write_behind(host_requests& host, std::uint64_t file) noexcept : host_(host), file_(file) {}

  /// Sends the bytes, for an offset or at_position. Waits only while too many writes are in flight.
  /// Returns the number of bytes. If an earlier write has failed, sends no more bytes, and returns
  /// -errno of the failed write. Throws like host_requests::send().
  [[nodiscard]] std::int64_t write(std::span<const std::byte> from, std::int64_t offset);

  [[nodiscard]] bool is_empty() const noexcept { return under_way_.empty(); }

  /// Waits until all writes are done. The errors of these writes are kept for take_error().
  void wait();
  /// Returns -errno of the first failed write, or 0. Later calls do not return the same error
  /// again.
  [[nodiscard]] std::int64_t take_error() noexcept { return std::exchange(error_, 0); }

 private:
  struct piece {
    sent_request sent;
    std::size_t bytes = 0;
  };

  [[nodiscard]] sent_request send(const request& what);
  void take_one();
  void make_space_for(std::size_t bytes);

  host_requests& host_;
  std::uint64_t file_;
  std::shared_ptr<lane> way_; ///< lane in which all writes in flight were sent
  std::uint64_t transfer_ = 0;
  std::deque<piece> under_way_;
  std::size_t bytes_ = 0; ///< bytes of all writes in flight
  std::int64_t error_ = 0;
};

} // namespace farcall::files
