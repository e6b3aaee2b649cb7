#pragma once

#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace farcall {

/// Size of the pages that memory is mapped in: the usual ones, or those of the huge page pool.
enum class page_kind { normal, huge };

/// What the addresses of segments are multiples of, in every process.
inline constexpr std::size_t segment_alignment = 65536;

/// The address space, or a limit of file sizes, has no space for a segment.
class segment_too_large : public error {
 public:
  using error::error;
};

/// A piece of memory that can be shared with other processes: an anonymous memory file and its
/// mapping. Owns both. It has no name in any file system, so nothing is left behind by a crash.
/// Pages are taken from the system when they are first touched. Its address is a multiple of
/// segment_alignment.
class segment {
 public:
  segment() noexcept = default;
  segment(segment&& other) noexcept;
  segment& operator=(segment&& other) noexcept;
  segment(const segment&) = delete;
  segment& operator=(const segment&) = delete;
  ~segment();

  /// A new segment of `bytes` zero bytes, mode 0600, whose size nobody can change. `label` shows up
  /// in /proc/PID/maps. Throws error when descriptors or address space (segment_too_large) run out,
  /// or when huge pages are asked for and the system has no pool of them.
  [[nodiscard]] static segment create(const std::string& label, std::size_t bytes,
                                      page_kind pages = page_kind::normal);

  /// Maps a segment made by another process; takes the descriptor. `bytes` must not exceed the size
  /// of the file, otherwise throws error: a shorter file would turn reads into SIGBUS.
  [[nodiscard]] static segment map(unique_fd file, std::size_t bytes);

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
  [[nodiscard]] explicit operator bool() const noexcept { return data_ != nullptr; }
  /// Descriptor to pass on; -1 once close_file was called. Stays owned by the segment.
  [[nodiscard]] int fd() const noexcept { return file_.get(); }

  /// Closes the descriptor and keeps the mapping, once nobody else needs to be given the segment.
  void close_file() noexcept { file_.reset(); }

  /// Takes the pages of [offset, offset + bytes) from the system now; `offset` is a multiple of a
  /// page. Returns 0, or else errno: ENOSPC or ENOMEM when there are not enough pages. Touching
  /// them would then kill the process.
  [[nodiscard]] int reserve(std::size_t offset, std::size_t bytes) noexcept;

  /// The descriptor, to pass the segment on later; keeps the mapping.
  [[nodiscard]] unique_fd take_file() noexcept { return std::move(file_); }

  /// Gives the whole pages inside [offset, offset + bytes) back to the system; they read as zero
  /// afterwards, in every process.
  void discard(std::size_t offset, std::size_t bytes) noexcept;

 private:
  /// False once something else has closed the descriptor: its number may be another file's.
  [[nodiscard]] bool has_own_file() const noexcept;

  unique_fd file_;
  std::uint64_t inode_ = 0;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Maps `bytes` at `data` in this process ahead of their first use. A hint: failure is harmless.
void prefault(std::byte* data, std::size_t bytes) noexcept;

/// Size of a normal page.
[[nodiscard]] std::size_t page_bytes() noexcept;

} // namespace farcall
