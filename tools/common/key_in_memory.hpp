#pragma once

#include <farcall/base/unique_fd.hpp>

#include <string>

namespace farcall::tool {

/// A key as a file without a place in any folder, so that nothing is left of it, however this
/// process ends. Processes of the same user can open it by its path for as long as this lives.
class key_in_memory {
 public:
  /// A new key.
  key_in_memory();
  /// The one that somebody has said; `line` is wiped.
  explicit key_in_memory(std::string& line);

  /// The same in processes that were forked meanwhile.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// What the file holds: the line that `farcall serve --key-from-stdin` wants.
  [[nodiscard]] std::string line() const;

 private:
  unique_fd file_;
  std::string path_;
};

} // namespace farcall::tool
