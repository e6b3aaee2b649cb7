#pragma once

#include <farcall/base/unique_fd.hpp>

#include <vector>

namespace farcall::tool {

/// The sockets that a service manager listens at for this process, and has passed to it
/// (sd_listen_fds(3)): TCP sockets that listen; none where LISTEN_PID names another process. They
/// close on exec and do not block. Removes the variables that tell of them, for those that this
/// process starts. Not while other threads use the environment. Throws failed_run.
[[nodiscard]] std::vector<unique_fd> take_passed_sockets();

} // namespace farcall::tool
