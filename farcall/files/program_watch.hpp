// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/event_loop.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/files/access.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace farcall::files {

/// Notices programs that use files of this machine at paths of the host, because they make system
/// calls without the preloaded library. The system reports such calls of programs that have set a
/// seccomp filter (tools/io/watch.c), and waits for a reply. The reply lets each call continue
/// unchanged. Any thread may use this object.
class program_watch {
 public:
  /// `prefixes` must outlive this object. Throws error and std::system_error.
  explicit program_watch(std::span<const prefix> prefixes);
  program_watch(const program_watch&) = delete;
  program_watch& operator=(const program_watch&) = delete;
  ~program_watch() { finish(); }

  /// Takes the descriptor by which the system reports calls. Programs get ENOSYS for such calls
  /// once it is closed. Returns false if it cannot be watched.
  [[nodiscard]] bool add(unique_fd listener) noexcept;

  /// Closes the descriptors, and logs a warning that names the programs. A second call does
  /// nothing.
  void finish() noexcept;

  /// Returns the text of the warning, or an empty text.
  [[nodiscard]] std::string text();

 private:
  struct use {
    std::size_t calls = 0;
    std::string first; ///< path of the first call
  };

  void take_report(int listener) noexcept;
  void note(std::uint32_t process, const std::string& path);

  std::span<const prefix> prefixes_;
  std::shared_ptr<event_loop> loop_;
  std::mutex mutex_;
  std::map<int, unique_fd> listeners_;
  std::map<std::string, use> uses_; ///< by the names of programs
  bool is_finished_ = false;
};

} // namespace farcall::files
