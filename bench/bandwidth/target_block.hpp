// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bench/bandwidth/content.hpp>
#include <bench/runner/local_memory.hpp>

#include <farcall/async/node.hpp>
#include <farcall/copy/buffer.hpp>

#include <cstddef>
#include <cstdint>

namespace farcall::tool {

namespace offloaded {

/// Functions that run on the target. reserve_block() returns the address of new, touched,
/// unregistered memory.
std::uint64_t reserve_block(std::uint64_t bytes, pages kind);
void release_block(std::uint64_t address);
/// Calls fill_block() on the block.
void fill_block_at(std::uint64_t address, std::uint64_t bytes, std::uint64_t round);
/// Calls first_wrong_word() on the block; returns `bytes` if all words are right.
std::uint64_t first_wrong_word_at(std::uint64_t address, std::uint64_t bytes,
                                  block_content content);
/// Calls huge_bytes_at() on the block.
std::uint64_t huge_bytes_of_block(std::uint64_t address);

} // namespace offloaded

/// Unregistered memory of a target during the object's lifetime. The members call the target.
class target_block {
 public:
  target_block(const node& where, std::size_t bytes, pages kind);
  ~target_block();
  target_block(const target_block&) = delete;
  target_block& operator=(const target_block&) = delete;
  target_block(target_block&&) = delete;
  target_block& operator=(target_block&&) = delete;

  [[nodiscard]] remote_span<std::byte> bytes() const { return {where_.id(), address_, bytes_}; }
  void fill(std::uint64_t round);
  /// Calls first_wrong_word(); returns bytes().size() if all words are right.
  [[nodiscard]] std::size_t first_wrong(block_content content) const;
  /// Returns the bytes on huge pages.
  [[nodiscard]] std::size_t huge_bytes() const;

 private:
  node where_;
  std::size_t bytes_;
  std::uint64_t address_;
};

} // namespace farcall::tool
