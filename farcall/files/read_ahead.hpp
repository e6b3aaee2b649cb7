// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/files/host_requests.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace farcall::files {

/// Fetches parts of a file from the host before the program reads them. Used if the program reads
/// the file from its beginning on. Works like a kernel's read-ahead, except that the host's file
/// may change after a part was fetched. Therefore a fetched part is used for at most
/// `longest_kept`. Not thread-safe.
class read_ahead {
 public:
  static constexpr std::chrono::seconds longest_kept{1};

  read_ahead(host_requests& host, std::uint64_t file) noexcept : host_(host), file_(file) {}

  /// Reads like pread(2). Returns nothing if `offset` does not continue the earlier reads. In this
  /// case the caller must read the bytes itself, without read-ahead, and report them by has_read().
  /// Throws like host_requests::send().
  [[nodiscard]] std::optional<std::int64_t> read(void* to, std::size_t bytes, std::int64_t offset);

  /// Reports that the caller has read these bytes without read-ahead. A negative number means that
  /// the read has failed.
  void has_read(std::int64_t offset, std::int64_t bytes) noexcept;

  /// Drops the bytes that were fetched, because the file has changed.
  void drop() noexcept;

 private:
  /// A part of the file that was requested from the host.
  struct piece {
    /// Memory for the bytes of the piece. Unused if the program asks for the whole piece before the
    /// piece has arrived, because the bytes then go directly to the program's memory.
    std::unique_ptr<std::byte[]> memory;
    std::unique_ptr<landing_place> landing;
    sent_request sent;
    std::size_t length = 0;
    std::size_t used = 0;            ///< bytes of the piece that the program has read
    std::optional<std::int64_t> got; ///< result of the request, after the reply has arrived
    std::chrono::steady_clock::time_point asked_at;
  };

  void ask_for_more(std::size_t at_most);
  [[nodiscard]] std::int64_t take(piece& p, std::byte* to, std::size_t bytes);

  host_requests& host_;
  std::uint64_t file_;
  std::int64_t next_ = 0; ///< position after the last read
  /// Number of consecutive reads, each of which started where the one before ended.
  std::size_t in_a_row_ = 0;
  std::size_t piece_bytes_ = 0; ///< bytes of the pieces that are fetched next
  std::deque<piece> pieces_;    ///< in order, from next_ on
  std::int64_t asked_until_ = 0;
  /// Memory of pieces that the program has read completely. It is used again for later pieces.
  std::vector<std::unique_ptr<std::byte[]>> spare_;
};

} // namespace farcall::files
