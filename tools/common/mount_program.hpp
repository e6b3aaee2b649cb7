// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace farcall::tool {

/// A check whether this machine can mount files of a host for targets.
struct mount_check {
  std::string program; ///< path of farcall-mount; empty if it was not built or installed
  std::string why_not; ///< reason why nothing can be mounted; empty if it can
  /// Reason why the system does not itself read and write files that a host on this machine passes;
  /// empty if it does.
  std::string why_no_passthrough;
  bool has_ring = false; ///< true if the system offers mounts whose requests come by io_uring
};

/// Finds the farcall-mount that was installed or built with this command, and lets it try a mount
/// in a namespace of its own.
[[nodiscard]] mount_check check_mounts();

/// Decides how targets of this command use files of their hosts, and tells them by the environment.
/// `by` is the value of --host-files-by; without it the setting counts. Preloads libfarcall-io.so
/// unless targets shall only mount. Returns the path of farcall-mount, which the caller puts before
/// the targets' command line, or an empty text. Other threads must not use the environment during
/// the call. Throws failed_run, and setting_error.
[[nodiscard]] std::string prepare_host_files(const std::optional<std::string>& by);

} // namespace farcall::tool
