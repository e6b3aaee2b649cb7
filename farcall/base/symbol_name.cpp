// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/symbol_name.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

namespace farcall {
namespace {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

std::uint64_t sum(std::uint64_t a, std::uint64_t b) noexcept {
  return a > unlimited - b ? unlimited : a + b;
}
std::uint64_t product(std::uint64_t a, std::uint64_t b) noexcept {
  return b != 0 && a > unlimited / b ? unlimited : a * b;
}

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// Length of the longest text to which one character of a mangled name expands, such as "unsigned
/// __int128".
constexpr std::uint64_t max_word = 20;

/// Upper bounds of the lengths of the parts of a mangled name. A reference "S_", "S0_", … repeats a
/// part that ended earlier in the name. Parts are numbered in the order of their ends. A part has
/// therefore ended before the first reference to this part or a later one, and is no longer than
/// the text so far.
class part_lengths {
 public:
  /// Returns an upper bound of the length of part `number`, for a reference to this part. `so_far`
  /// is the length of the demangled text that precedes the reference.
  [[nodiscard]] std::uint64_t of(std::size_t number, std::uint64_t so_far) noexcept {
    if (number >= bounds_.size()) return so_far;
    const auto own = bounds_.begin() + static_cast<std::ptrdiff_t>(number);
    *own = std::min(so_far, *std::min_element(own, bounds_.end()));
    return *own;
  }

 private:
  static constexpr std::array<std::uint64_t, 128> all_unlimited() noexcept {
    std::array<std::uint64_t, 128> all{};
    all.fill(unlimited);
    return all;
  }
  std::array<std::uint64_t, 128> bounds_ = all_unlimited();
};

struct reference {
  std::size_t characters = 0; ///< including the "_"
  std::size_t number = 0;     ///< number of the part
};
/// Reads a reference "S1A_", "S_", "T0_" or "T_" from its second character on. Returns 0 characters
/// if the text is no reference.
reference reference_in(std::string_view text) noexcept {
  reference found;
  for (std::size_t i = 0; i < text.size() && i < 12; ++i) {
    const char c = text[i];
    if (c == '_') {
      found.characters = i + 1;
      found.number = i == 0 ? 0 : found.number + 1;
      return found;
    }
    if (!is_digit(c) && (c < 'A' || c > 'Z')) return {};
    found.number =
        found.number * 36 + static_cast<std::size_t>(is_digit(c) ? c - '0' : c - 'A' + 10);
  }
  return {};
}

} // namespace

std::string demangle_symbol(const std::string& name) {
  return name.starts_with("_Z") ? demangle(name.c_str()) : name;
}

std::uint64_t max_demangled_bytes(std::string_view mangled) noexcept {
  std::uint64_t bytes = 0;
  std::uint64_t tokens = 0;
  // Upper bound of the number of times that pack expansions repeat the next reference.
  std::uint64_t repetitions = 1;
  part_lengths parts;
  for (std::size_t i = 0; i < mangled.size(); ++tokens) {
    const std::string_view rest = mangled.substr(i);
    if (is_digit(rest[0])) {
      std::size_t length = 0;
      std::size_t digits = 0;
      for (; digits < rest.size() && digits < 9 && is_digit(rest[digits]); ++digits)
        length = length * 10 + static_cast<std::size_t>(rest[digits] - '0');
      // A number is normally the length of the identifier that follows. If the rest of the name is
      // too short for this, the number is a value.
      const std::size_t identifier = length <= rest.size() - digits ? length : 0;
      bytes = sum(bytes, identifier + digits + max_word);
      i += digits + identifier;
      continue;
    }
    if (rest.starts_with("Dp") || rest.starts_with("sp")) {
      repetitions = product(repetitions, tokens);
      i += 2;
      continue;
    }
    const reference found =
        rest[0] == 'S' || rest[0] == 'T' ? reference_in(rest.substr(1)) : reference{};
    if (found.characters == 0) {
      bytes = sum(bytes, max_word);
      ++i;
      continue;
    }
    // A template parameter is replaced by an argument, which may be as long as all the previous
    // text.
    const std::uint64_t part = rest[0] == 'S' ? parts.of(found.number, bytes) : bytes;
    bytes = sum(bytes, product(part, repetitions));
    repetitions = 1;
    i += 1 + found.characters;
  }
  return bytes;
}

} // namespace farcall
