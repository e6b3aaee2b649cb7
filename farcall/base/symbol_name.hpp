#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace farcall {

/// Demangled form of a symbol's name; the name itself if it is none of C++. Unlike demangle(),
/// leaves names of C functions alone that are encodings of types, as "i" and "Pi". Throws
/// std::bad_alloc.
[[nodiscard]] std::string demangle_symbol(const std::string& name);

/// Returns an upper bound of the length of an Itanium ABI name once it is demangled. References to
/// earlier parts ("S1_", "T_") are expanded there, so the length may double every few characters:
/// 400 characters may stand for more text than fits into memory.
[[nodiscard]] std::uint64_t most_demangled_bytes(std::string_view mangled) noexcept;

} // namespace farcall
