#pragma once

#include "profile.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace farcall::tool {

struct function_row {
  std::string function; ///< valid text
  std::string module;   ///< its path, valid text
  std::uint64_t self = 0;
  std::uint64_t total = 0; ///< a sample counts once, however often the function is in its stack
};

/// The functions of a profile, or of one node or thread.
struct function_group {
  std::string title; ///< empty: of all
  std::uint64_t samples = 0;
  std::uint64_t computing = 0;
  std::uint64_t waiting = 0;
  std::uint64_t idle = 0;
  std::uint64_t counted = 0;      ///< the samples that the rows are of
  std::vector<function_row> rows; ///< most samples of its own first, then in total, then by name
};

struct function_table_options {
  enum class per : std::uint8_t { profile, node, thread };
  per group = per::profile;
  bool also_waiting = false;        ///< count also samples that waited or were idle
  std::size_t most_rows = 0;        ///< of a group; 0: all
  std::optional<std::size_t> width; ///< columns that lines may take, at least 20; nothing: any
};

/// Throws std::invalid_argument for a damaged profile.
[[nodiscard]] std::vector<function_group> function_groups(const profile& seen,
                                                          const function_table_options& options);

/// For people: how many samples computed, waited and idled, then a row for each function. Where
/// lines have a limit, names are shortened, and columns left out that do not fit.
[[nodiscard]] std::string function_table(const profile& seen, const function_table_options& asked);

} // namespace farcall::tool
