// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "signature.hpp"

#include <cstdint>
#include <optional>
#include <string>

struct Dwarf;

namespace farcall::veo {

/// Debug information of one file, which stays open. Not thread-safe.
class debug_info {
 public:
  /// Takes ownership of the file's descriptor and opens the files of the debug information's split
  /// units. If the descriptor is negative or the file has no debug information, the object finds no
  /// functions.
  explicit debug_info(int file) noexcept;
  ~debug_info();
  debug_info(const debug_info&) = delete;
  debug_info& operator=(const debug_info&) = delete;

  /// Returns the signature of the function that starts at this address, which is relative to the
  /// file.
  std::optional<signature> signature_at(std::uint64_t address) const;

  /// Returns "function (file:line)" for the code at this address, which is relative to the file.
  /// Returns an empty text if the place is unknown.
  std::string line_at(std::uint64_t address) const;

 private:
  int file_ = -1;
  Dwarf* dwarf_ = nullptr;
};

} // namespace farcall::veo
