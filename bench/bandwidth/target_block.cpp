// SPDX-License-Identifier: Apache-2.0
#include "target_block.hpp"

#include <farcall/farcall.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

namespace farcall::tool {

namespace offloaded {

namespace {

struct reserved_blocks {
  std::mutex mutex;
  std::map<std::uint64_t, std::unique_ptr<local_memory>> blocks;
};

reserved_blocks& all_reserved() {
  static reserved_blocks all;
  return all;
}

std::span<std::byte> block_at(std::uint64_t address, std::uint64_t bytes) {
  return {reinterpret_cast<std::byte*>(address), static_cast<std::size_t>(bytes)};
}

} // namespace

std::uint64_t reserve_block(std::uint64_t bytes, pages kind) {
  auto block = std::make_unique<local_memory>(static_cast<std::size_t>(bytes), kind);
  const auto address = reinterpret_cast<std::uintptr_t>(block->bytes().data());
  reserved_blocks& all = all_reserved();
  const std::lock_guard lock{all.mutex};
  all.blocks.emplace(address, std::move(block));
  return address;
}

void release_block(std::uint64_t address) {
  reserved_blocks& all = all_reserved();
  const std::lock_guard lock{all.mutex};
  all.blocks.erase(address);
}

void fill_block_at(std::uint64_t address, std::uint64_t bytes, std::uint64_t round) {
  fill_block(block_at(address, bytes), round);
}

std::uint64_t first_wrong_word_at(std::uint64_t address, std::uint64_t bytes,
                                  block_content content) {
  return first_wrong_word(block_at(address, bytes), content).value_or(bytes);
}

std::uint64_t huge_bytes_of_block(std::uint64_t address) {
  return huge_bytes_at(reinterpret_cast<const void*>(address));
}

} // namespace offloaded

target_block::target_block(const node& where, std::size_t bytes, pages kind)
    : where_(where), bytes_(bytes),
      address_(sync(where_, offloaded::reserve_block, std::uint64_t{bytes}, kind)) {}

target_block::~target_block() {
  try {
    sync(where_, offloaded::release_block, address_);
  } catch (const error&) { // the target has ended, with its memory
  }
}

void target_block::fill(std::uint64_t round) {
  sync(where_, offloaded::fill_block_at, address_, std::uint64_t{bytes_}, round);
}

std::size_t target_block::first_wrong(block_content content) const {
  return sync(where_, offloaded::first_wrong_word_at, address_, std::uint64_t{bytes_}, content);
}

std::size_t target_block::huge_bytes() const {
  return sync(where_, offloaded::huge_bytes_of_block, address_);
}

} // namespace farcall::tool
