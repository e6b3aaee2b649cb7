#pragma once

#include <farcall/offload/callables.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace farcall::tool {

/// A callable that one of two programs cannot call in the other.
struct table_difference {
  std::uint32_t first = 0;  ///< its row in the first program; 0: none
  std::uint32_t second = 0; ///< in the second
  std::string why;          ///< and what to do, where that is not plain
};

struct table_comparison {
  std::size_t matching = 0;   ///< rows of the first program that calls find in the second
  bool is_same_table = false; ///< each row is the same in both
  std::vector<table_difference> differences;
};

/// What farcall finds when nodes with these two tables call each other, and why where it finds
/// nothing. `first_name` and `second_name` are the programs, for people.
[[nodiscard]] table_comparison compare_tables(const detail::program_table& first,
                                              const detail::program_table& second,
                                              const std::string& first_name,
                                              const std::string& second_name);

} // namespace farcall::tool
