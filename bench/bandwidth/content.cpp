// SPDX-License-Identifier: Apache-2.0
#include "content.hpp"

#include <algorithm>
#include <cstring>

namespace farcall::tool {

namespace {

constexpr std::size_t word_bytes = sizeof(std::uint64_t);

/// Returns the word at index `at`. Each step is invertible, so different indices give different
/// words.
constexpr std::uint64_t word_at(std::uint64_t at, std::uint64_t round) {
  std::uint64_t word = (at + 1) * 0x9e3779b97f4a7c15U + round * 0xd1b54a32d192ed03U;
  word ^= word >> 29;
  return word * 0xbf58476d1ce4e5b9U;
}

/// Returns a marked word, which differs from every unmarked word of that index in any round.
constexpr std::uint64_t marked_word_at(std::uint64_t at, std::uint64_t round) {
  return ~word_at(at, round);
}

std::uint64_t load(const std::byte* from) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, word_bytes);
  return word;
}

/// Returns the index of the marked word in [begin, end).
std::size_t marked_of(std::size_t begin, std::size_t end, std::uint64_t round) {
  return begin + (word_at(begin, ~round) >> 32) % (end - begin);
}

/// True if all words in [begin, end) have the round's content. Compares without branches, which is
/// faster.
bool holds(const std::byte* block, std::size_t begin, std::size_t end, std::uint64_t round) {
  std::uint64_t differences = 0;
  for (std::size_t at = begin; at < end; ++at)
    differences |= load(block + at * word_bytes) ^ word_at(at, round);
  return differences == 0;
}

} // namespace

void fill_block(std::span<std::byte> block, std::uint64_t round) {
  for (std::size_t at = 0; at < block.size() / word_bytes; ++at) {
    const std::uint64_t word = word_at(at, round);
    std::memcpy(block.data() + at * word_bytes, &word, word_bytes);
  }
}

void for_each_mark(std::size_t bytes, std::uint64_t round,
                   const std::function<void(std::size_t, std::uint64_t)>& mark) {
  const std::size_t words = bytes / word_bytes;
  constexpr std::size_t step = bytes_per_mark / word_bytes;
  for (std::size_t begin = 0; begin < words; begin += step) {
    const std::size_t at = marked_of(begin, std::min(begin + step, words), round);
    mark(at * word_bytes, marked_word_at(at, round));
  }
}

void mark_block(std::span<std::byte> block, std::uint64_t round) {
  for_each_mark(block.size(), round, [&](std::size_t offset, std::uint64_t word) {
    std::memcpy(block.data() + offset, &word, word_bytes);
  });
}

std::optional<std::size_t> first_wrong_word(std::span<const std::byte> block,
                                            block_content content) {
  const std::size_t words = block.size() / word_bytes;
  constexpr std::size_t step = bytes_per_mark / word_bytes;
  for (std::size_t begin = 0; begin < words; begin += step) {
    const std::size_t end = std::min(begin + step, words);
    const std::size_t marked = content.is_marked ? marked_of(begin, end, content.round) : end;
    const auto expected = [&](std::size_t at) {
      return at == marked ? marked_word_at(at, content.round) : word_at(at, content.round);
    };
    const bool is_right =
        holds(block.data(), begin, marked, content.round) &&
        (marked == end || (load(block.data() + marked * word_bytes) == expected(marked) &&
                           holds(block.data(), marked + 1, end, content.round)));
    if (is_right) continue;
    for (std::size_t at = begin; at < end; ++at) {
      if (load(block.data() + at * word_bytes) != expected(at)) return at * word_bytes;
    }
  }
  return std::nullopt;
}

} // namespace farcall::tool
