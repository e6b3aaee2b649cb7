#pragma once

#include <farcall/files/host_requests.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>

namespace farcall::files {

/// Writes to a file that are on their way to the host: it does them in order, while the writer goes
/// on. Behind one that fails nothing is written until its writer has been told. As writes of an NFS
/// client. Not thread-safe.
class write_behind {
 public:
  write_behind(host_requests& host, std::uint64_t file) noexcept : host_(host), file_(file) {}

  /// Sends the bytes; waits only while too many are under way. At an offset, or at_position.
  /// Returns their number, or -errno of a write before, after which nothing is sent. Throws as
  /// host_requests::send().
  [[nodiscard]] std::int64_t write(std::span<const std::byte> from, std::int64_t offset);

  [[nodiscard]] bool is_empty() const noexcept { return under_way_.empty(); }

  /// Waits until all of it is done, without telling of errors.
  void wait();
  /// The first error of those that are done: -errno, or 0. Told once.
  [[nodiscard]] std::int64_t take_error() noexcept { return std::exchange(error_, 0); }

 private:
  struct piece {
    sent_request sent;
    std::size_t bytes = 0;
  };

  [[nodiscard]] sent_request send(const request& what);
  void take_one();
  void make_room_for(std::size_t bytes);

  host_requests& host_;
  std::uint64_t file_;
  std::shared_ptr<lane> way_; ///< of all that is under way
  std::uint64_t transfer_ = 0;
  std::deque<piece> under_way_;
  std::size_t bytes_ = 0; ///< of these
  std::int64_t error_ = 0;
};

} // namespace farcall::files
