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

/// Looks the function that starts at `code` up in the debug information of the library, or program,
/// that contains it; nothing without debug information (`-g`), or if this was built without libdw.
/// Any thread.
std::optional<signature> signature_of(const void* code) noexcept;

/// Opens the debug information of all libraries that are loaded: after dlopen(), because files may
/// be removed, or replaced, before a function of theirs is called for the first time.
void open_debug_information() noexcept;

/// Closes the debug information of libraries that have gone: after dlclose().
void close_debug_information() noexcept;

} // namespace farcall::veo
