// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace farcall::tool {

/// Decodes a symbol of Rust's "v0" scheme, which begins with _R. The name is printed as by Rust's
/// own tools without hashes, for instance "<crate::Type<u8> as
/// crate::Trait>::function::{closure#0}". Returns nothing for other or damaged symbols, and if the
/// name is nested too deeply or is longer than `longest`. Identifiers with non-ASCII letters stay
/// encoded as "punycode{…}".
[[nodiscard]] std::optional<std::string> rust_name(std::string_view symbol, std::size_t longest);

/// Returns the demangled name of a function in C, C++ or Rust.
[[nodiscard]] std::string readable_function(std::string_view symbol);

} // namespace farcall::tool
