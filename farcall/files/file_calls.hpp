#pragma once

#include <farcall/files/access.hpp>
#include <farcall/files/file_messages.hpp>
#include <farcall/files/io_table.h>
#include <farcall/offload/call.hpp>
#include <farcall/offload/job_service.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::files {

/// A target's side: file operations that its host does. Each is as the system call of the same
/// name, and returns what that returns, or -errno: EIO where the host has failed, or the job has
/// ended. The calling thread waits as in a system call, without running other handlers.
///
/// Reads and writes of more than `largest_piece` bytes go in pieces, several under way at a time,
/// so that the host's files and the way to it are busy at once. Such a one is not atomic: other
/// readers and writers of the file may come between its pieces. As pieces of an NFS mount.
///
/// Any thread of the target.
class file_calls final : public detail::job_service {
 public:
  /// For the calls of `job`, which outlives finish().
  file_calls(detail::job_core& job, std::vector<prefix> prefixes);

  /// By its words, the path is one of the host's.
  [[nodiscard]] bool is_hosts(std::string_view path) const noexcept;

  // Paths are absolute. Memory stays the caller's; -EFAULT where it cannot be used.
  [[nodiscard]] std::int64_t open(std::string_view path, int flags, std::uint32_t mode,
                                  farcall_io_opened& opened) noexcept;
  [[nodiscard]] std::int64_t close(std::uint64_t file) noexcept;
  [[nodiscard]] std::int64_t read(std::uint64_t file, void* to, std::size_t bytes) noexcept;
  [[nodiscard]] std::int64_t write(std::uint64_t file, const void* from,
                                   std::size_t bytes) noexcept;
  [[nodiscard]] std::int64_t pread(std::uint64_t file, void* to, std::size_t bytes,
                                   std::int64_t offset) noexcept;
  [[nodiscard]] std::int64_t pwrite(std::uint64_t file, const void* from, std::size_t bytes,
                                    std::int64_t offset) noexcept;
  [[nodiscard]] std::int64_t seek(std::uint64_t file, std::int64_t offset, int whence) noexcept;
  [[nodiscard]] std::int64_t set_flags(std::uint64_t file, int flags) noexcept;
  [[nodiscard]] std::int64_t fstat(std::uint64_t file, farcall_io_status& status) noexcept;
  [[nodiscard]] std::int64_t ftruncate(std::uint64_t file, std::int64_t size) noexcept;
  [[nodiscard]] std::int64_t fsync(std::uint64_t file, bool data_only) noexcept;
  [[nodiscard]] std::int64_t list(std::uint64_t file, void* to, std::size_t bytes) noexcept;
  [[nodiscard]] std::int64_t stat(std::string_view path, bool follows_link,
                                  farcall_io_status& status) noexcept;
  [[nodiscard]] std::int64_t access(std::string_view path, int mode) noexcept;
  [[nodiscard]] std::int64_t truncate(std::string_view path, std::int64_t size) noexcept;
  [[nodiscard]] std::int64_t unlink(std::string_view path) noexcept;
  [[nodiscard]] std::int64_t rmdir(std::string_view path) noexcept;
  [[nodiscard]] std::int64_t mkdir(std::string_view path, std::uint32_t mode) noexcept;
  [[nodiscard]] std::int64_t rename(std::string_view from, std::string_view to,
                                    std::uint32_t flags = 0) noexcept;
  [[nodiscard]] std::int64_t read_link(std::string_view path, char* to, std::size_t bytes) noexcept;

  void finish() noexcept override;

 private:
  /// Threads share lanes to the host when there are more of them.
  static constexpr std::size_t most_lanes = 16;
  /// Pieces of one read or write that are under way at a time.
  static constexpr std::size_t pieces_in_flight = 4;

  struct lane_slot {
    std::mutex mutex;
    std::shared_ptr<lane> open;
  };
  struct transfer;

  [[nodiscard]] std::shared_ptr<lane> own_lane();
  template <class F>
  [[nodiscard]] std::int64_t guarded(const F& f) noexcept;
  [[nodiscard]] std::int64_t ask(const request& what);
  [[nodiscard]] std::int64_t call(const request& what) noexcept;
  [[nodiscard]] std::int64_t call(request what, void* to, std::size_t bytes) noexcept;
  [[nodiscard]] std::int64_t wait(const lane& way, future<reply> sent);
  [[nodiscard]] std::int64_t read_at(std::uint64_t file, void* to, std::size_t bytes,
                                     std::int64_t offset) noexcept;
  [[nodiscard]] std::int64_t write_at(std::uint64_t file, const void* from, std::size_t bytes,
                                      std::int64_t offset) noexcept;
  [[nodiscard]] std::int64_t in_pieces(const transfer& t);

  detail::job_core& job_;
  std::vector<prefix> prefixes_;
  std::shared_mutex ending_; ///< shared by calls that are under way
  bool has_ended_ = false;
  std::atomic<std::uint64_t> last_transfer_{0};
  std::array<lane_slot, most_lanes> lanes_;
};

/// Of the job whose target this process is. Throws error where the host lets it use no files.
[[nodiscard]] file_calls& of_this_target();

/// As job_service_entry::on_target.
[[nodiscard]] std::shared_ptr<detail::job_service> join_files(detail::job_state& job,
                                                              const std::string& told);

} // namespace farcall::files
