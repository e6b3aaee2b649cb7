// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>

namespace farcall::mount {

/// Starts the helper: a process that is no child of this one, and keeps nothing of it but the
/// namespaces and one socket. Returns the other end of the socket, which the target inherits.
/// Throws error.
[[nodiscard]] unique_fd start_helper();

} // namespace farcall::mount
