// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>

#include <string>

#include <sys/stat.h>

namespace farcall::tool {

/// Checks that an output file can be written, so that the command fails before it starts anything.
/// An existing file is opened and left unchanged. A missing file is created for the check, and the
/// destructor removes it again. Not thread-safe.
class output_probe {
 public:
  static constexpr mode_t mode_of_new_files = 0666; ///< before the umask

  /// Throws usage_problem if the file cannot be written, or if standard output goes to the same
  /// file. The text names the option. Does not block, even on a pipe. `path` must outlive this
  /// object.
  output_probe(const char* option, const std::string& path);
  ~output_probe();
  output_probe(const output_probe&) = delete;
  output_probe& operator=(const output_probe&) = delete;
  output_probe(output_probe&&) = delete;
  output_probe& operator=(output_probe&&) = delete;

  [[nodiscard]] bool is_same(const output_probe& other) const { return is_same(other.state_); }
  /// Gives the open file to the caller, if the file existed before the check. Returns an empty
  /// descriptor otherwise.
  [[nodiscard]] unique_fd kept();

 private:
  [[nodiscard]] bool is_same(const struct stat& other) const {
    return state_.st_dev == other.st_dev && state_.st_ino == other.st_ino;
  }

  const std::string& path_;
  unique_fd fd_;
  bool is_new_;
  struct stat state_{};
};

} // namespace farcall::tool
