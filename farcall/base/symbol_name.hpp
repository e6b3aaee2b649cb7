#pragma once

#include <farcall/base/language.hpp>

#include <string>

namespace farcall {

/// Demangled form of a symbol's name; the name itself if it is none of C++. Unlike demangle(),
/// leaves names of C functions alone that are encodings of types, as "i" and "Pi". Throws
/// std::bad_alloc.
[[nodiscard]] std::string demangle_symbol(const std::string& name);

} // namespace farcall
