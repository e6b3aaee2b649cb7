// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>

#include <string>

namespace farcall::tool {

/// A secret key in an unnamed file (memfd), so that the key vanishes with the process, in whatever
/// way the process ends. While this object exists, processes of the same user can open the file by
/// path().
class key_in_memory {
 public:
  /// Generates a key.
  key_in_memory();
  /// Stores the key from `line`, and overwrites the characters of `line`.
  explicit key_in_memory(std::string& line);

  /// Returns the path of the file, which is valid in forked children too.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Returns the file's content, which is the line that `farcall serve --key-from-stdin` expects.
  [[nodiscard]] std::string line() const;

 private:
  unique_fd file_;
  std::string path_;
};

} // namespace farcall::tool
