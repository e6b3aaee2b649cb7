// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace farcall::tool {

/// Compresses bytes into the gzip format. Equal inputs give equal bytes, because the output has
/// neither a file name nor a date. Throws std::bad_alloc.
[[nodiscard]] std::string gzip_compressed(std::string_view bytes);

} // namespace farcall::tool
