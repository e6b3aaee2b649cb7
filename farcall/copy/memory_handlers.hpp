// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/pack.hpp>
#include <farcall/copy/copy_state.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Functions that a node calls on another node to use memory that the two nodes do not share. A
/// call finds a function by its name, which must be the same in all builds. The functions therefore
/// have no types of std in their signatures, because the names of these types differ between
/// standard libraries. They are in no unnamed namespace, because other files use them.
namespace farcall::detail {

/// Result of an allocation: the address of the block, or 0 and the reason of the failure.
struct allocation {
  std::uint64_t address = 0;
  std::string why;
};
struct bytes_sent {
  std::span<const std::byte> bytes;
};
struct bytes_read {
  std::vector<std::byte> bytes;
};

/// Allocates a block from the node's own heap.
[[nodiscard]] allocation allocate_in(const copy_state& copies, std::uint64_t bytes,
                                     std::uint64_t alignment);
/// Allocates like allocate_in(), from this node's heap in the job of the running call.
[[nodiscard]] allocation allocate_here(std::uint64_t bytes, std::uint64_t alignment);
/// Frees a block. Throws error if no block is allocated at that address.
void release_here(std::uint64_t address);

/// Write and read memory of this node. Both throw error if no such memory exists at the address.
void write_here(std::uint64_t address, bytes_sent sent);
[[nodiscard]] bytes_read read_here(std::uint64_t address, std::uint64_t bytes);

[[noreturn]] void throw_not_there(std::uint64_t address, std::uint64_t bytes, const char* what);

/// Reads like read_here(), but copies the bytes to address `to` in the heap of the calling node
/// `asker`, which is on this machine and shares its heap with this node.
void read_into(std::uint64_t address, std::uint64_t bytes, node_id asker, std::uint64_t to);

/// Returns the maximum number of bytes that one call of write_here() or read_here() moves in this
/// lane. If the peer cannot fetch long messages from this node's heap, the bytes must fit in one
/// record of the ring.
[[nodiscard]] std::size_t piece_of(const am::requester& lane);

} // namespace farcall::detail

template <>
struct farcall::packer<farcall::detail::allocation> {
  static void pack(writer& w, const detail::allocation& a) { w(a.address, a.why); }
  static detail::allocation unpack(reader& r) {
    const auto address = r.read<std::uint64_t>();
    return {address, r.read<std::string>()};
  }
};

template <>
struct farcall::packer<farcall::detail::bytes_sent> {
  static constexpr bool has_views = true;
  static void pack(writer& w, const detail::bytes_sent& sent) { w(sent.bytes); }
  static detail::bytes_sent unpack(reader& r) { return {r.read<std::span<const std::byte>>()}; }
};

template <>
struct farcall::packer<farcall::detail::bytes_read> {
  static void pack(writer& w, const detail::bytes_read& read) { w(read.bytes); }
  static detail::bytes_read unpack(reader& r) { return {r.read<std::vector<std::byte>>()}; }
};
