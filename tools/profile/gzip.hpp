#pragma once

#include <string>
#include <string_view>

namespace farcall::tool {

/// The bytes as a file of gzip's, the same each time: it names no file and no date. Throws
/// std::bad_alloc.
[[nodiscard]] std::string gzip_compressed(std::string_view bytes);

} // namespace farcall::tool
