// SPDX-License-Identifier: Apache-2.0
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
  std::string module;   ///< path, valid text
  std::uint64_t self = 0;
  /// Number of samples in whose stacks the function is. A sample counts once, even if the function
  /// is recursive.
  std::uint64_t total = 0;
};

/// Functions of a whole profile, of one node, or of one thread.
struct function_group {
  std::string title; ///< title of the group; empty for the whole profile
  std::uint64_t samples = 0;
  std::uint64_t computing = 0;
  std::uint64_t waiting = 0;
  std::uint64_t idle = 0;
  std::uint64_t counted = 0; ///< sum of the samples in all rows
  /// Rows in descending order of their own samples (`self`). Rows with equal numbers are in
  /// descending order of `total`, and then in the order of their names.
  std::vector<function_row> rows;
};

struct function_table_options {
  enum class per : std::uint8_t { profile, node, thread };
  per group = per::profile;
  bool also_waiting = false; ///< true if samples that waited or were idle are counted too
  std::size_t max_rows = 0;  ///< per group; 0 for all
  /// Maximum number of columns of a line, at least 20; no limit if empty.
  std::optional<std::size_t> width;
};

/// Groups the samples of a profile by function. Throws std::invalid_argument if the profile is
/// damaged.
[[nodiscard]] std::vector<function_group> function_groups(const profile& seen,
                                                          const function_table_options& options);

/// Returns a table for users. It shows how many samples computed, waited and idled, and has a row
/// for each function. If the width is limited, names are shortened, and columns that do not fit are
/// dropped.
[[nodiscard]] std::string function_table(const profile& seen, const function_table_options& asked);

} // namespace farcall::tool
