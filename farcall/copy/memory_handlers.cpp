// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/copy/memory_handlers.hpp>
#include <farcall/memory/copy.hpp>

#include <string>

namespace farcall::detail {

allocation allocate_in(const copy_state& copies, std::uint64_t bytes, std::uint64_t alignment) {
  try {
    std::byte* block = copies.engine().heap().allocate(bytes, alignment);
    return {reinterpret_cast<std::uintptr_t>(block), ""};
  } catch (const out_of_memory& e) {
    return {0, e.what()};
  }
}

allocation allocate_here(std::uint64_t bytes, std::uint64_t alignment) {
  return allocate_in(current_copies(), bytes, alignment);
}

void release_here(std::uint64_t address) {
  if (!current_copies().engine().heap().release(reinterpret_cast<std::byte*>(address))) {
    throw error("memory was freed that is not allocated here, or twice");
  }
}

void throw_not_there(std::uint64_t address, std::uint64_t bytes, const char* what) {
  throw error(node_text(own_id()) + " has no " + std::to_string(bytes) + " bytes at address " +
              std::to_string(address) + " that can be " + what +
              "; was the memory freed, or the span made by hand?");
}

void write_here(std::uint64_t address, bytes_sent sent) {
  if (!copy_if_mapped(reinterpret_cast<void*>(address), sent.bytes.data(), sent.bytes.size())) {
    throw_not_there(address, sent.bytes.size(), "written to");
  }
}

bytes_read read_here(std::uint64_t address, std::uint64_t bytes) {
  const auto* from = reinterpret_cast<const std::byte*>(address);
  if (!is_mapped(from, bytes)) throw_not_there(address, bytes, "read");
  bytes_read read{std::vector<std::byte>(bytes)};
  if (!copy_if_mapped(read.bytes.data(), from, bytes)) throw_not_there(address, bytes, "read");
  return read;
}

void read_into(std::uint64_t address, std::uint64_t bytes, node_id asker, std::uint64_t to) {
  rma_engine* const m = current_copies().engine().rma_engine_for(asker);
  const held_bytes there = m == nullptr ? held_bytes{} : m->map(asker, to, bytes);
  if (there.here == nullptr) throw error("memory of " + node_text(asker) + " is not shared", asker);
  if (!copy_if_mapped(there.here, reinterpret_cast<const void*>(address), bytes))
    throw_not_there(address, bytes, "read");
}

std::size_t piece_of(const am::requester& lane) {
  constexpr std::size_t most = std::size_t{256} << 10;
  constexpr std::size_t besides = 64; // space for the address and the length
  return lane.ends().takes_long ? most : lane.max_arguments() - besides;
}

} // namespace farcall::detail
