// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace farcall {

/// Kind of the pages in which memory is mapped: normal pages, or pages from the huge page pool.
enum class page_kind { normal, huge };

/// Alignment of the addresses of segments, in every process.
inline constexpr std::size_t segment_alignment = 65536;

/// Thrown if the address space has no space for a segment, or a limit of file sizes is too low.
class segment_too_large : public error {
 public:
  using error::error;
};

/// Memory that can be shared with other processes. Consists of an anonymous memory file and its
/// mapping, and owns both. The file has no name in any file system, so that a crash leaves nothing
/// behind. The system provides pages when they are first touched. The address is a multiple of
/// segment_alignment.
class segment {
 public:
  segment() noexcept = default;
  segment(segment&& other) noexcept;
  segment& operator=(segment&& other) noexcept;
  segment(const segment&) = delete;
  segment& operator=(const segment&) = delete;
  ~segment();

  /// Makes a segment of `bytes` zero bytes, with mode 0600 and a fixed size. `label` appears in
  /// /proc/PID/maps. Throws segment_too_large if the address space or the limit of file sizes is
  /// too small. Throws error if no descriptor is left, or if huge pages are requested and the
  /// system has no pool of them.
  [[nodiscard]] static segment create(const std::string& label, std::size_t bytes,
                                      page_kind pages = page_kind::normal);

  /// Maps a segment that another process has made, and takes ownership of the descriptor. Throws
  /// error if `bytes` exceeds the size of the file, because reads beyond the file would cause a
  /// SIGBUS.
  [[nodiscard]] static segment map(unique_fd file, std::size_t bytes);

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
  [[nodiscard]] explicit operator bool() const noexcept { return data_ != nullptr; }
  /// Returns the descriptor, which other processes can be given. The segment owns the descriptor.
  /// -1 after close_file().
  [[nodiscard]] int fd() const noexcept { return file_.get(); }

  /// Closes the descriptor and keeps the mapping. Called when the segment will not be passed on any
  /// more.
  void close_file() noexcept { file_.reset(); }

  /// Makes the system provide the pages of [offset, offset + bytes) now; `offset` is a multiple of
  /// a page. Returns 0, or an errno. ENOSPC or ENOMEM means that there are not enough pages, and
  /// that touching the pages would kill the process.
  [[nodiscard]] int reserve(std::size_t offset, std::size_t bytes) noexcept;

  /// Gives ownership of the descriptor to the caller, who can pass the segment on later. Keeps the
  /// mapping.
  [[nodiscard]] unique_fd take_file() noexcept { return std::move(file_); }

  /// Ends the sharing of the memory by this process: replaces the mapping by zeroed memory of this
  /// process alone, at the same addresses. Other threads may access the memory at the same time. If
  /// the system refuses, the memory stays shared.
  void detach() noexcept;

  /// Moves the mapping of this segment to the addresses of `unused`, which was detached and has the
  /// same size. Other threads may access the addresses of `unused` at the same time. Afterwards
  /// `unused` is empty. Returns false, without effect, if the sizes differ or the system refuses.
  bool move_over(segment& unused) noexcept;

  /// Gives the whole pages inside [offset, offset + bytes) back to the system. Afterwards they read
  /// as zero in every process.
  void discard(std::size_t offset, std::size_t bytes) noexcept;

 private:
  /// False if other code has closed the descriptor, so that the descriptor's number may belong to
  /// another file.
  [[nodiscard]] bool has_own_file() const noexcept;

  unique_fd file_;
  std::uint64_t inode_ = 0;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Maps `bytes` bytes at `data` in this process before their first use. This is only a hint, whose
/// failure is harmless.
void prefault(std::byte* data, std::size_t bytes) noexcept;

/// Returns the size of a normal page.
[[nodiscard]] std::size_t page_bytes() noexcept;

} // namespace farcall
