// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <string>

// Programs pass strings and containers to the library, but libstdc++ has three layouts of them. A
// program with another layout than the library must not link. Declarations between these macros
// therefore have the layout in their symbol names.
#if defined(_GLIBCXX_DEBUG)
#define FARCALL_BEGIN_CONTAINER_LAYOUT inline namespace compiled_with_GLIBCXX_DEBUG {
#define FARCALL_END_CONTAINER_LAYOUT }
#elif defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#define FARCALL_BEGIN_CONTAINER_LAYOUT inline namespace compiled_with_the_old_string_ABI {
#define FARCALL_END_CONTAINER_LAYOUT }
#else
#define FARCALL_BEGIN_CONTAINER_LAYOUT
#define FARCALL_END_CONTAINER_LAYOUT
#endif
