// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/native/arguments.hpp>

#include <optional>
#include <vector>

namespace farcall::veo {

using native::value_class;

struct signature {
  value_class result = value_class::unknown;
  std::vector<value_class> parameters; // the named ones
  bool is_variadic = false;

  friend bool operator==(const signature&, const signature&) = default;
};

/// Returns the signature of the function that starts at `code`, taken from the debug information of
/// the function's library or program. Returns none if there is no debug information (compile with
/// `-g`), or if this code was built without libdw. Thread-safe.
std::optional<signature> signature_of(const void* code) noexcept;

/// Opens the debug information of all loaded libraries. Call it after dlopen(), because the files
/// may be removed or replaced before their functions are first called.
void open_debug_information() noexcept;

/// Closes the debug information of libraries that have been unloaded. Call it after dlclose().
void close_debug_information() noexcept;

} // namespace farcall::veo
