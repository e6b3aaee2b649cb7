// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profile.hpp"

#include <string>

namespace farcall::tool {

/// Returns the profile in pprof's format profile.proto. The values are samples/count and
/// cpu/nanoseconds, and the labels are thread, process, node and activity. By convention, files
/// hold it compressed (gzip_compressed()), but `go tool pprof` reads it uncompressed too. Throws
/// std::invalid_argument if the profile is damaged.
[[nodiscard]] std::string pprof_protobuf(const profile& seen);

} // namespace farcall::tool
