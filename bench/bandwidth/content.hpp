// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

// Content of blocks in measurements of copies, with which each copied byte can be checked.

namespace farcall::tool {

/// Length of a piece of a block with one word that can be marked.
inline constexpr std::size_t bytes_per_mark = std::size_t{32} * 1024;

/// Content computed from the position in the block and a number, the round: each word is wrong at
/// any other position, in another round, and when shifted by a byte.
///
/// A copy is made once untimed to warm the caches. The same bytes again would not show whether the
/// timed copy has moved them, and all new bytes would cool the caches. So one word in each 32 KiB,
/// at a position computed from the round, is changed between the two copies: the content is then
/// *marked*. A timed copy that omits 64 KiB in a row, or takes old data for them, is always found;
/// shorter errors are found over many samples.
struct block_content {
  std::uint64_t round = 0;
  bool is_marked = false;
};

/// Fills a block, whose length is a multiple of 8, with a round's unmarked content.
void fill_block(std::span<std::byte> block, std::uint64_t round);

/// Calls `mark` with the byte offset and the value of each word that differs in a marked block.
void for_each_mark(std::size_t bytes, std::uint64_t round,
                   const std::function<void(std::size_t, std::uint64_t)>& mark);

/// Writes the marked words into a block of this process.
void mark_block(std::span<std::byte> block, std::uint64_t round);

/// Checks all bytes, and returns the offset of the first wrong word; empty if all are right.
[[nodiscard]] std::optional<std::size_t> first_wrong_word(std::span<const std::byte> block,
                                                          block_content content);

} // namespace farcall::tool
