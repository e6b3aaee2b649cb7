// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/memory/available.hpp>
#include <farcall/memory/shared_heap.hpp>

#include <algorithm>
#include <cerrno>
#include <string>

namespace farcall {
namespace {

/// Number of bytes for which the system is asked for pages at once. It is so large that small
/// blocks seldom need a system call, and it is a whole number of huge pages.
constexpr std::uint64_t backing_chunk = std::uint64_t{2} << 20;

/// Size of the smallest block whose release gives its pages back to the system. Smaller blocks keep
/// their pages, because taking pages again costs more than the copy that fills them.
constexpr std::uint64_t discard_from = std::uint64_t{64} << 20;

/// Size of the smallest block for which huge pages are tried first.
constexpr std::uint64_t huge_from = backing_chunk;

/// Size of the smallest block for which the available memory is checked first, because the system
/// would rather kill a process than refuse memory.
constexpr std::uint64_t ask_from = std::uint64_t{16} << 20;

/// Throws out_of_memory, with the reason, if the system has refused memory, and not for a lack of
/// memory. Does nothing otherwise.
void refuse_if_not_for_space(std::uint64_t bytes, int reason) {
  if (reason == 0 || reason == ENOSPC || reason == ENOMEM) return;
  const std::string why =
      reason == EBADF
          ? "something in this process has closed farcall's descriptors "
            "(closefrom(), close_range()?)"
          : "fallocate() says: " + reason_text(reason) + " (a filter of system calls, seccomp?)";
  throw out_of_memory("no memory can be taken from the system for " + std::to_string(bytes) +
                      " bytes: " + why);
}

} // namespace

shared_heap::region::region(segment s)
    : memory(std::move(s)), blocks(0, memory.size()), backed(memory.size() / backing_chunk + 1) {}

int shared_heap::region::back(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t first = offset / backing_chunk;
  const std::uint64_t last = (offset + std::max<std::uint64_t>(bytes, 1) - 1) / backing_chunk;
  const auto start_of = [](std::uint64_t chunk) { return chunk * backing_chunk; };
  const auto bytes_of = [&](std::uint64_t chunk) {
    return std::min(backing_chunk, memory.size() - start_of(chunk));
  };
  std::vector<std::uint64_t> taken;
  for (std::uint64_t chunk = first; chunk <= last; ++chunk) {
    if (backed[chunk]) continue;
    if (const int reason = memory.reserve(start_of(chunk), bytes_of(chunk)); reason != 0) {
      // Give back the pages that this call has taken so far, because they may be enough for a
      // smaller block.
      for (const std::uint64_t unused : taken) {
        memory.discard(start_of(unused), bytes_of(unused));
        backed[unused] = false;
      }
      return reason;
    }
    taken.push_back(chunk);
    backed[chunk] = true;
  }
  return 0;
}

void shared_heap::region::discard(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t first = align_up(offset, backing_chunk) / backing_chunk;
  const std::uint64_t last = (offset + bytes) / backing_chunk;
  if (first >= last) return;
  memory.discard(first * backing_chunk, (last - first) * backing_chunk);
  std::fill(backed.begin() + static_cast<std::ptrdiff_t>(first),
            backed.begin() + static_cast<std::ptrdiff_t>(last), false);
}

shared_heap::shared_heap(segment normal, segment huge) {
  regions_.push_back(std::make_unique<region>(std::move(normal)));
  if (huge) regions_.push_back(std::make_unique<region>(std::move(huge)));
}

std::byte* shared_heap::allocate_in(region& r, std::uint64_t bytes, std::uint64_t alignment,
                                    int& reason) {
  const std::optional<std::uint64_t> offset = r.blocks.allocate(bytes, alignment);
  if (!offset) return nullptr;
  reason = r.back(*offset, bytes);
  if (reason != 0) {
    (void)r.blocks.release(*offset);
    return nullptr;
  }
  return r.memory.data() + *offset;
}

std::byte* shared_heap::allocate(std::uint64_t bytes, std::uint64_t alignment) {
  // Refuse alignments above a page, because a mapping is only sure to start at a page.
  if (!is_power_of_two(alignment) || alignment > page_bytes()) {
    throw error("memory aligned to " + std::to_string(alignment) +
                " bytes cannot be had; give a power of two up to " + std::to_string(page_bytes()));
  }
  const std::lock_guard guard(mutex_);
  alignment = std::max<std::uint64_t>(alignment, line_bytes);
  int reason = 0;
  if (bytes >= huge_from && regions_.size() > 1) {
    if (std::byte* block = allocate_in(*regions_[1], bytes, alignment, reason)) return block;
  }
  reason = 0;
  const auto available = bytes >= ask_from ? available_memory() : std::nullopt;
  if (!available || bytes <= *available) {
    if (std::byte* block = allocate_in(*regions_[0], bytes, alignment, reason)) return block;
  }
  refuse_if_not_for_space(bytes, reason);
  throw out_of_memory("no space for " + std::to_string(bytes) + " bytes: this node has " +
                      std::to_string(regions_[0]->blocks.bytes_in_use()) + " bytes in use, " +
                      std::to_string(available_memory().value_or(0)) +
                      " bytes of memory are free, and its " + "shared segment has " +
                      std::to_string(regions_[0]->memory.size()));
}

bool shared_heap::release(std::byte* block) noexcept {
  const std::lock_guard guard(mutex_);
  for (const auto& r : regions_) {
    if (block < r->memory.data() || block >= r->memory.data() + r->memory.size()) continue;
    const auto offset = static_cast<std::uint64_t>(block - r->memory.data());
    const std::optional<std::uint64_t> bytes = r->blocks.release(offset);
    if (bytes && *bytes >= discard_from) r->discard(offset, *bytes);
    return bytes.has_value();
  }
  return false;
}

std::uint64_t shared_heap::bytes_in_use() const {
  const std::lock_guard guard(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& r : regions_)
    bytes += r->blocks.bytes_in_use();
  return bytes;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> shared_heap::windows() const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
  for (const auto& r : regions_) {
    all.emplace_back(reinterpret_cast<std::uintptr_t>(r->memory.data()), r->memory.size());
  }
  return all;
}

} // namespace farcall
