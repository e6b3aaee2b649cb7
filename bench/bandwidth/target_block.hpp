#pragma once

#include <bench/bandwidth/content.hpp>
#include <bench/runner/local_memory.hpp>

#include <farcall/offload/buffer.hpp>
#include <farcall/offload/node.hpp>

#include <cstddef>
#include <cstdint>

namespace farcall::tool {

namespace offloaded {

/// Memory of the target's own that farcall knows nothing about, touched; its address.
std::uint64_t reserve_block(std::uint64_t bytes, pages kind);
void release_block(std::uint64_t address);
/// fill_block() there.
void fill_block_at(std::uint64_t address, std::uint64_t bytes, std::uint64_t round);
/// first_wrong_word() there; `bytes` when none is wrong.
std::uint64_t first_wrong_word_at(std::uint64_t address, std::uint64_t bytes,
                                  block_content content);
/// huge_bytes_at() there.
std::uint64_t huge_bytes_of_block(std::uint64_t address);

} // namespace offloaded

/// Such memory of a target, for as long as this lives. Its functions are calls to the target.
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
  /// As first_wrong_word(); bytes().size() when none is wrong.
  [[nodiscard]] std::size_t first_wrong(block_content content) const;
  /// How much of it lies on huge pages.
  [[nodiscard]] std::size_t huge_bytes() const;

 private:
  node where_;
  std::size_t bytes_;
  std::uint64_t address_;
};

} // namespace farcall::tool
