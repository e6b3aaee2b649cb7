// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>

#include <vector>

namespace farcall::tool {

/// Takes the listening sockets that a service manager has opened and passed to this process
/// (sd_listen_fds(3)). They are TCP sockets, or Unix sockets with a path. Returns none if
/// LISTEN_PID names another process. Makes the sockets close-on-exec and non-blocking. Removes the
/// variables that describe the sockets from the environment, so no other thread may use the
/// environment during the call. Throws failed_run.
[[nodiscard]] std::vector<unique_fd> take_passed_sockets();

} // namespace farcall::tool
