#pragma once

#include <cstddef>

/// Once the largest message. Accepted, defined and printed, and no limit any more.
#ifndef HAM_MESSAGE_SIZE
#define HAM_MESSAGE_SIZE 4096
#endif

#ifdef PAGE_SIZE // by some system headers
#undef PAGE_SIZE
#endif

namespace ham::constants {

// NOLINTBEGIN(readability-identifier-naming): HAM's names
inline constexpr std::size_t MSG_SIZE = HAM_MESSAGE_SIZE;
inline constexpr std::size_t MSG_BUFFERS = 256;
inline constexpr std::size_t CACHE_LINE_SIZE = 64;
inline constexpr std::size_t PAGE_SIZE = 4096;
inline constexpr std::size_t HUGE_PAGE_SIZE = 2 * 1024 * 1024;
// NOLINTEND(readability-identifier-naming)

} // namespace ham::constants
