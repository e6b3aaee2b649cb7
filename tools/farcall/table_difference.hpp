// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/offload/callables.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace farcall::tool {

/// A callable of one of two programs that the nodes of the other program cannot call.
struct table_difference {
  /// Row of the callable in the first program; 0 if it is only in the second.
  std::uint32_t first = 0;
  /// Row of the callable in the second program; 0 if it is only in the first.
  std::uint32_t second = 0;
  /// Reason why the callable cannot be called, with a remedy if the remedy is not obvious.
  std::string why;
};

struct table_comparison {
  /// Number of callables of the first program whose calls find the same callable in the second
  /// program.
  std::size_t matching = 0;
  bool is_same_table = false; ///< all rows are equal
  std::vector<table_difference> differences;
};

/// Compares the tables of two programs. The result has the number of callables that nodes of the
/// two programs find in each other, and for each other callable the reason why it is not found. The
/// names of the programs are used in these reasons.
[[nodiscard]] table_comparison compare_tables(const detail::program_table& first,
                                              const detail::program_table& second,
                                              const std::string& first_name,
                                              const std::string& second_name);

} // namespace farcall::tool
