// SPDX-License-Identifier: Apache-2.0
#include "published.hpp"

#include <array>
#include <bit>

namespace farcall::tool {

namespace {

/// Figures for 32 KiB, 64 KiB, … 1 GiB.
using column = std::array<double, 16>;

constexpr std::size_t first_bytes = std::size_t{32} * 1024;

constexpr column to_target_small{138,  254,  446,  834,  937,  1977, 1841, 3075,
                                 3999, 4578, 4914, 4948, 5579, 5693, 5635, 5654};
constexpr column to_target_huge{136,  283,  393,  933,   1900,  2673,  4273,  6506,
                                8095, 9108, 9720, 10047, 10290, 10300, 10322, 10344};
constexpr column from_target_small{106,  263,  477,  839,  1714, 1755, 2504, 3071,
                                   4320, 5378, 5670, 5328, 5817, 5748, 5557, 5527};
constexpr column from_target_huge{110,  291,  550,   928,   1566,  2949,  4421,  6905,
                                  8272, 9570, 10129, 10545, 10690, 10669, 10802, 10872};

} // namespace

std::optional<double> published_mib_per_second(direction way, pages kind, std::size_t bytes) {
  if (bytes < first_bytes || !std::has_single_bit(bytes)) return std::nullopt;
  const auto row = static_cast<std::size_t>(std::countr_zero(bytes / first_bytes));
  const bool is_small = kind == pages::small;
  const column& measured = way == direction::to_target
                               ? (is_small ? to_target_small : to_target_huge)
                               : (is_small ? from_target_small : from_target_huge);
  return row < measured.size() ? std::optional{measured[row]} : std::nullopt;
}

} // namespace farcall::tool
