#pragma once

#include <farcall/base/unique_fd.hpp>

#include <string>

#include <sys/stat.h>

namespace farcall::tool {

/// A file that is to be written later, tried before anything is started: one that was there is
/// opened, and left as it is; one that was not is made, and removed again with this object. One
/// thread.
class output_probe {
 public:
  static constexpr mode_t mode_of_new_files = 0666; ///< which the umask lessens

  /// Throws usage_problem, naming the option, when the file cannot be written, or is the one that
  /// standard output goes to. Does not block, even where it is a pipe. `path` has to stay.
  output_probe(const char* option, const std::string& path);
  ~output_probe();
  output_probe(const output_probe&) = delete;
  output_probe& operator=(const output_probe&) = delete;
  output_probe(output_probe&&) = delete;
  output_probe& operator=(output_probe&&) = delete;

  [[nodiscard]] bool is_same(const output_probe& other) const { return is_same(other.state_); }
  /// The open file, if it was there before.
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
