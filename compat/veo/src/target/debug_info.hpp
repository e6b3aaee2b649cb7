#pragma once

#include "signature.hpp"

#include <cstdint>
#include <optional>
#include <string>

struct Dwarf;

namespace farcall::veo {

/// The debug information of one file, open. For one thread at a time.
class debug_info {
 public:
  /// Takes the descriptor of the file, and opens what else has some of its debug information, as
  /// the files of split units. Never fails: a descriptor that is negative, or of a file without
  /// debug information, says nothing of any function.
  explicit debug_info(int file) noexcept;
  ~debug_info();
  debug_info(const debug_info&) = delete;
  debug_info& operator=(const debug_info&) = delete;

  /// Of the function that starts at this address of the file.
  std::optional<signature> signature_at(std::uint64_t address) const;

  /// "function (file:line)", as far as it is known what is at this address; else empty.
  std::string line_at(std::uint64_t address) const;

 private:
  int file_ = -1;
  Dwarf* dwarf_ = nullptr;
};

} // namespace farcall::veo
