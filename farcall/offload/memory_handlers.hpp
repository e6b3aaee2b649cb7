#pragma once

#include <farcall/call/pack.hpp>
#include <farcall/offload/job_state.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// What nodes call at each other for memory that they do not share. The names must be the same in
/// all builds of this file, and known to other files: no types of std, which each library calls
/// otherwise, and no unnamed namespace.
namespace farcall::detail {

/// Address, or 0 and the reason.
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

/// From the node's own heap.
[[nodiscard]] allocation allocate_in(const job_state& job, std::uint64_t bytes,
                                     std::uint64_t alignment);
/// As allocate_in(), of the job of the call.
[[nodiscard]] allocation allocate_here(std::uint64_t bytes, std::uint64_t alignment);
/// Throws error for what is not allocated.
void release_here(std::uint64_t address);

/// These throw error where the address has no such memory.
void write_here(std::uint64_t address, bytes_sent sent);
[[nodiscard]] bytes_read read_here(std::uint64_t address, std::uint64_t bytes);

[[noreturn]] void throw_not_there(std::uint64_t address, std::uint64_t bytes, const char* what);

/// The same into memory of the asker's heap, which this node shares.
void read_into(std::uint64_t address, std::uint64_t bytes, node_id asker, std::uint64_t to);

/// Bytes that one call of write_here() or read_here() moves at most: as much as a record takes
/// where the peer cannot fetch more.
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
