// SPDX-License-Identifier: Apache-2.0
#include "freed_blocks.hpp"

#include <algorithm>

namespace farcall::openmp {

std::optional<std::uint64_t> freed_blocks::take(std::size_t bytes) {
  const auto found = std::ranges::find(kept_, bytes, &block::bytes);
  if (found == kept_.end()) return std::nullopt;
  const std::uint64_t address = found->address;
  kept_.erase(found);
  kept_bytes_ -= bytes;
  add(address, bytes);
  return address;
}

std::vector<std::uint64_t> freed_blocks::make_space(std::size_t bytes) {
  if (bytes < kept_from) return {};
  const std::size_t used = used_bytes_ + bytes;
  return drop_to(std::max(most_used_, used) - used);
}

void freed_blocks::add(std::uint64_t address, std::size_t bytes) {
  if (bytes < kept_from) return;
  used_[address] = bytes;
  used_bytes_ += bytes;
  most_used_ = std::max(most_used_, used_bytes_);
}

bool freed_blocks::keep(std::uint64_t address) {
  const auto found = used_.find(address);
  if (found == used_.end()) return false;
  kept_.push_back({address, found->second});
  kept_bytes_ += found->second;
  used_bytes_ -= found->second;
  used_.erase(found);
  return true;
}

std::vector<std::uint64_t> freed_blocks::drop() { return drop_to(0); }

std::vector<std::uint64_t> freed_blocks::drop_to(std::size_t bytes) {
  std::vector<std::uint64_t> dropped;
  while (kept_bytes_ > bytes) {
    dropped.push_back(kept_.front().address);
    kept_bytes_ -= kept_.front().bytes;
    kept_.pop_front();
  }
  return dropped;
}

} // namespace farcall::openmp
