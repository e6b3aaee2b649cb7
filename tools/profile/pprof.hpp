#pragma once

#include "profile.hpp"

#include <string>

namespace farcall::tool {

/// The profile as pprof's profile.proto: values samples/count and cpu/nanoseconds, and the labels
/// thread, process, node and activity. Files have it with gzip_compressed(), by convention;
/// `go tool pprof` reads it as it is, too. Throws std::invalid_argument for a damaged profile.
[[nodiscard]] std::string pprof_protobuf(const profile& seen);

} // namespace farcall::tool
