#pragma once

#include <farcall/files/access.hpp>
#include <farcall/files/buffered_file.hpp>
#include <farcall/files/file_messages.hpp>
#include <farcall/files/host_requests.hpp>
#include <farcall/files/io_table.h>
#include <farcall/files/passed_files.hpp>
#include <farcall/offload/job_service.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::files {

/// A target's side: file operations that its host does. Each is as the system call of the same
/// name, and returns what that returns, or -errno: EIO where the host has failed, or the job has
/// ended. The calling thread waits as in a system call, without running other handlers.
///
/// A file that is read from its beginning on is read ahead, and writes return before the host has
/// done them, which fsync() and close() wait for; an error comes with the next write, fsync() or
/// close(). Between nodes that is as of an NFS mount, close-to-open; within the target, a file that
/// is written to and open twice is not buffered. Large reads and writes go in pieces, and are not
/// atomic. FARCALL_IO_BUFFER=off has every call wait until it is done.
///
/// Any thread of the target.
class file_calls final : public detail::job_service {
 public:
  /// For the calls of `job`, which outlives finish(). With `wants_descriptors`, open files are
  /// passed to this process where they can be.
  file_calls(detail::job_core& job, std::vector<prefix> prefixes, bool wants_descriptors);

  [[nodiscard]] std::span<const prefix> prefixes() const noexcept { return prefixes_; }

  /// By its words, the path is one of the host's.
  [[nodiscard]] bool is_hosts(std::string_view path) const noexcept;

  // Paths are absolute. Memory stays the caller's; -EFAULT where it cannot be used.
  [[nodiscard]] std::int64_t open(std::string_view path, int flags, std::uint32_t mode,
                                  farcall_io_opened& opened) noexcept;
  [[nodiscard]] std::int64_t close(std::uint64_t file) noexcept;
  /// Until the host has done what was written; an error of that, as at close().
  [[nodiscard]] std::int64_t flush(std::uint64_t file) noexcept;
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
  [[nodiscard]] std::int64_t link(std::string_view from, std::string_view to,
                                  bool follows_link) noexcept;
  /// `content` is what the link says, and may be any path.
  [[nodiscard]] std::int64_t symlink(std::string_view content, std::string_view path) noexcept;
  [[nodiscard]] std::int64_t allocate(std::uint64_t file, int mode, std::int64_t offset,
                                      std::int64_t bytes) noexcept;

  // Of the path, or, where that is empty, of the file.
  /// EPERM for bits that have a file run as its owner (setuid, setgid).
  [[nodiscard]] std::int64_t set_mode(std::uint64_t file, std::string_view path,
                                      std::uint32_t mode) noexcept;
  [[nodiscard]] std::int64_t set_owner(std::uint64_t file, std::string_view path, bool follows_link,
                                       std::uint32_t user, std::uint32_t group) noexcept;
  [[nodiscard]] std::int64_t set_times(std::uint64_t file, std::string_view path, bool follows_link,
                                       const farcall_io_times& times) noexcept;
  [[nodiscard]] std::int64_t space(std::uint64_t file, std::string_view path,
                                   farcall_io_space& space) noexcept;

  void take_file(std::uint64_t number, unique_fd file) noexcept override;
  void finish() noexcept override;

 private:
  using file_ref = std::shared_ptr<buffered_file>;

  [[nodiscard]] file_ref find(std::uint64_t number);
  /// Files that are the same one of the host's are not buffered if one of them is written to.
  void keep(const file_ref& opened);
  template <class F>
  [[nodiscard]] std::int64_t on_file(std::uint64_t file, const F& f) noexcept;
  template <class F>
  [[nodiscard]] std::int64_t on_path(const F& f) noexcept;
  [[nodiscard]] std::int64_t ask_file(request what, void* to = nullptr,
                                      std::size_t bytes = 0) noexcept;
  [[nodiscard]] std::int64_t ask_path(request what, void* to = nullptr,
                                      std::size_t bytes = 0) noexcept;
  [[nodiscard]] std::int64_t ask_either(const request& what, void* to = nullptr,
                                        std::size_t bytes = 0) noexcept;
  [[nodiscard]] std::int64_t ask_to_open(const request& what, opened_file& there);

  std::vector<prefix> prefixes_;
  const bool buffers_;
  const bool wants_descriptors_;
  passed_files passed_;
  host_requests host_;
  std::shared_mutex mutex_;
  std::map<std::uint64_t, file_ref> files_; ///< that are open, by their numbers
};

/// Of the job whose target this process is. Throws error where the host lets it use no files.
[[nodiscard]] file_calls& of_this_target();

/// As job_service_entry::on_target.
[[nodiscard]] std::shared_ptr<detail::job_service> join_files(detail::job_state& job,
                                                              const std::string& told);

} // namespace farcall::files
