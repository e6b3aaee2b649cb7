#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace farcall::tool {

/// Decodes a symbol of Rust's "v0" scheme, which begins with _R, as Rust's own tools print it
/// without hashes: "<crate::Type<u8> as crate::Trait>::function::{closure#0}". Empty for other and
/// damaged symbols, and if the name is nested too deeply or longer than `longest`. Identifiers with
/// letters beyond ASCII stay encoded: "punycode{…}".
[[nodiscard]] std::optional<std::string> rust_name(std::string_view symbol, std::size_t longest);

/// The name of a function, of C, C++ or Rust, as people write it.
[[nodiscard]] std::string readable_function(std::string_view symbol);

} // namespace farcall::tool
