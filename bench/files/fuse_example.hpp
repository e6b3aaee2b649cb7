// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tools/common/forked_process.hpp>

#include <optional>
#include <string>

namespace farcall::tool {

/// A mount of a folder by another program, such as libfuse's example passthrough_ll. The destructor
/// unmounts and ends the program. Forks, so create it before any thread.
class fuse_example {
 public:
  /// Runs `PROGRAM -f -o source=FOLDER PLACE` with a new folder PLACE. Throws failed_run if nothing
  /// is mounted within ten seconds.
  fuse_example(const std::string& program, const std::string& folder);
  ~fuse_example();
  fuse_example(const fuse_example&) = delete;
  fuse_example& operator=(const fuse_example&) = delete;

  /// Returns the path of the mount.
  [[nodiscard]] const std::string& path() const { return place_; }

 private:
  void remove() noexcept;

  std::string place_;
  std::optional<forked_process> process_;
};

} // namespace farcall::tool
