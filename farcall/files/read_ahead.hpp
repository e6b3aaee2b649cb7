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

/// What of a file has been asked for before somebody reads it, for one that is read from its
/// beginning on. As a kernel's read-ahead, but the host's file may change meanwhile: what was
/// fetched is used for `longest_kept` at most. Not thread-safe.
class read_ahead {
 public:
  static constexpr std::chrono::seconds longest_kept{1};

  read_ahead(host_requests& host, std::uint64_t file) noexcept : host_(host), file_(file) {}

  /// As pread(2). Nothing: `offset` does not follow from the reads before, so that nothing is
  /// fetched for this one either; another way has to read, and to tell has_read(). Throws as
  /// host_requests::send().
  [[nodiscard]] std::optional<std::int64_t> read(void* to, std::size_t bytes, std::int64_t offset);

  /// Bytes that were read there in another way.
  void has_read(std::int64_t offset, std::int64_t bytes) noexcept;

  /// What was fetched is not the file's any more.
  void drop() noexcept;

 private:
  /// A part of the file that was asked for.
  struct piece {
    std::unique_ptr<std::byte[]> memory; ///< where it goes, unless its reader waits for all of it
    std::unique_ptr<landing_place> landing;
    sent_request sent;
    std::size_t length = 0;
    std::size_t used = 0;            ///< read by somebody
    std::optional<std::int64_t> got; ///< once it is here
    std::chrono::steady_clock::time_point asked_at;
  };

  void ask_for_more(std::size_t at_most);
  [[nodiscard]] std::int64_t take(piece& p, std::byte* to, std::size_t bytes);

  host_requests& host_;
  std::uint64_t file_;
  std::int64_t next_ = 0;       ///< where the last read ended
  std::size_t in_a_row_ = 0;    ///< reads, each from where the one before ended
  std::size_t piece_bytes_ = 0; ///< of those to come
  std::deque<piece> pieces_;    ///< one behind the other, from next_ on
  std::int64_t asked_until_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> spare_; ///< memory of pieces that were read
};

} // namespace farcall::files
