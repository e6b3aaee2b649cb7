#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace farcall::veo {

/// What the calling conventions tell apart; a structure of one word is what its register holds.
/// `unknown`: a type about which nothing is known. `wide`: one that does not travel in one
/// register, as larger structures, long double and complex numbers.
enum class value_class : std::uint8_t {
  unknown,
  none, // void
  sint8,
  sint16,
  sint32,
  integer64, // pointers and references too
  uint8,
  uint16,
  uint32,
  boolean,
  real32,
  real64,
  wide
};

struct signature {
  value_class result = value_class::unknown;
  std::vector<value_class> parameters; // the named ones
  bool is_variadic = false;

  friend bool operator==(const signature&, const signature&) = default;
};

/// What the debug information of the library, or program, that contains `code` says of the function
/// that starts there; nothing without debug information (`-g`), or if this was built without libdw.
/// Debug information is kept open until it is forgotten. Any thread.
std::optional<signature> signature_of(const void* code) noexcept;

/// For dlclose, which takes other libraries along: before it with an address in the library, or
/// after it for all libraries.
void forget_module_of(const void* code) noexcept;
void forget_modules() noexcept;

} // namespace farcall::veo
