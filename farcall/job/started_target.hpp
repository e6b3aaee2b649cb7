// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>

/// Functions for a process that a host has started as a target. They are called before the process
/// joins the job.
namespace farcall {

/// Returns true if a host has started this process as a target. Also returns true if the process
/// has lost a mark that identifies targets, so that take_target_socket() throws. Returns false
/// after take_target_socket(), and in other programs that the target starts before this call.
[[nodiscard]] bool is_started_target() noexcept;

/// Takes the socket by which the host has connected this process to itself. Sets the name that
/// process lists show to the program's name. Lets the process print to a terminal from the
/// background. Throws error, and writes the error to the log if no host can be told.
[[nodiscard]] unique_fd take_target_socket();

/// Sends SIGHUP to the processes that this target has started. They are in another process group
/// than the host, and so do not get the signals that the terminal sends to the host.
void hang_up_own_group() noexcept;

} // namespace farcall
