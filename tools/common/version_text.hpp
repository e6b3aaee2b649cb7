// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace farcall::tool {

/// Returns the text of --version: the release and its commit, the wire format, the transports that
/// are built in, and the modules that are installed.
[[nodiscard]] std::string version_text();

} // namespace farcall::tool
