#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

// What blocks hold while copies of them are measured, so that each byte of a copy can be checked.

namespace farcall::tool {

/// A word in each piece of this length can be marked.
inline constexpr std::size_t bytes_per_mark = std::size_t{32} * 1024;

/// Content that follows from the place in the block and from a number, the round: no word of it is
/// right at another place, in a block that is filled with another round, or a byte further on.
///
/// A copy is made once untimed, so that the caches are warm. The same bytes once more would not
/// show whether the timed copy has moved them, and new ones throughout would leave the caches cold
/// again. So one word in each 32 KiB, at a place that follows from the round, is changed between
/// the two: the content is then *marked*. A copy that leaves out 64 KiB in a row, or takes them
/// from where the copy before it has left them, is always found; shorter ones with the samples that
/// go by.
struct block_content {
  std::uint64_t round = 0;
  bool is_marked = false;
};

/// Fills a block, whose length is a multiple of 8, with the content of a round, without marks.
void fill_block(std::span<std::byte> block, std::uint64_t round);

/// Tells each word that makes a block of so many bytes marked: its offset in bytes, and its value.
void for_each_mark(std::size_t bytes, std::uint64_t round,
                   const std::function<void(std::size_t, std::uint64_t)>& mark);

/// Writes those words into a block of this process.
void mark_block(std::span<std::byte> block, std::uint64_t round);

/// Offset of the first word that is not as it should be; looks at all bytes. Empty when all are.
[[nodiscard]] std::optional<std::size_t> first_wrong_word(std::span<const std::byte> block,
                                                          block_content content);

} // namespace farcall::tool
