// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

/// Size of the largest message in HAM. Programs may define this macro and print its value. It is
/// not used otherwise, because farcall has no such limit.
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
// Constants of HAM's transports. They have no effect in this layer.
inline constexpr std::size_t NO_BUFFER_INDEX = MSG_BUFFERS;
inline constexpr std::size_t FLAG_FALSE = MSG_BUFFERS + 1;
inline constexpr int DATA_PUT_CODE = 1;
inline constexpr int DATA_GET_CODE = 2;
inline constexpr int DEFAULT_TAG = 0;
inline constexpr int RESULT_TAG = 1;
inline constexpr int DATA_TAG = 2;
inline constexpr int SYNC_TAG = 3;
// NOLINTEND(readability-identifier-naming)

} // namespace ham::constants
