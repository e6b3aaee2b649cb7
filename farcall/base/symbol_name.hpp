// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace farcall {

/// Demangles a symbol's name. Returns the name itself if it is not a C++ symbol. Unlike demangle(),
/// does not change names of C functions that are also encodings of types, such as "i" and "Pi".
/// Throws std::bad_alloc.
[[nodiscard]] std::string demangle_symbol(const std::string& name);

/// Demangles an Itanium ABI name of any length. The result may be so long that memory does not
/// suffice: call this function in a process that limits its memory. Returns the name itself if it
/// cannot be demangled. Throws std::bad_alloc.
[[nodiscard]] std::string demangle_unlimited(const char* name);

/// Returns an upper bound of the length of a demangled Itanium ABI name. The result may be very
/// large, because a reference to an earlier part ("S1_", "T_") stands for the whole text of that
/// part. The length may thus double every few characters, so that a mangled name of 400 characters
/// may expand to more text than fits into memory.
[[nodiscard]] std::uint64_t max_demangled_bytes(std::string_view mangled) noexcept;

} // namespace farcall
