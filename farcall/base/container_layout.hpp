#pragma once

#include <farcall/base/language.hpp>

#include <string>

// Strings and containers go from programs to the library. libstdc++ lays them out in one of three
// ways. A program that does it in another than the library does not link: what is declared between
// these has a name that says which.
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
