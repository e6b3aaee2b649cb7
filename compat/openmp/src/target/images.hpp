// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace farcall::openmp {

/// Loads a shared library from bytes, by a memory file without a path. The library stays until the
/// process ends. Returns the address of each name; 0 for a name that the library lacks. Throws
/// error with the loader's text.
[[nodiscard]] std::vector<std::uint64_t> load_library(std::span<const std::byte> image,
                                                      const std::vector<std::string>& names);

/// Loads the OpenMP runtime, unless this process has it already: the library `path` if it exists,
/// otherwise the library that the loader finds. Returns false if there is none.
[[nodiscard]] bool load_runtime(const std::string& path);

} // namespace farcall::openmp
