// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/files/host_requests.hpp>
#include <farcall/files/user_memory.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

/// Reads and writes that are not buffered. When a call returns, the host has performed it.
namespace farcall::files {

/// Maximum number of pieces of one read or write that are in flight at a time.
inline constexpr std::size_t pieces_in_flight = 4;

/// Reads like pread(2), or like read(2) if `offset` is at_position. Returns -EFAULT if `to` cannot
/// be written to. A read of more than `max_piece` bytes is sent in pieces, several at a time, so
/// that the host's files and the connection are busy at once; such a read is not atomic. Throws
/// like host_requests::send().
[[nodiscard]] std::int64_t read_now(host_requests& host, std::uint64_t file, void* to,
                                    std::size_t bytes, std::int64_t offset);
/// Writes like pwrite(2), or like write(2) if `offset` is at_position. The caller must have checked
/// that `from` is readable.
[[nodiscard]] std::int64_t write_now(host_requests& host, std::uint64_t file,
                                     std::span<const std::byte> from, std::int64_t offset);

/// Calls `use` with the bytes at `from` and returns its result. Returns -EFAULT if the bytes cannot
/// be read. Up to 16384 bytes are copied before the call, so that other threads cannot change them
/// during it.
template <class Use>
[[nodiscard]] std::int64_t with_readable(const void* from, std::size_t bytes, const Use& use) {
  constexpr std::size_t few = 16384;
  if (bytes > few) {
    return is_readable(from, bytes) ? use(std::span(static_cast<const std::byte*>(from), bytes))
                                    : -EFAULT;
  }
  std::array<std::byte, few> copied; // NOLINT(cppcoreguidelines-pro-type-member-init)
  if (!copy_from_user(copied.data(), from, bytes)) return -EFAULT;
  return use(std::span<const std::byte>(copied).first(bytes));
}

/// Returns a new number for a read or write in several pieces. All of its pieces carry the number,
/// so that the host knows that they belong together.
[[nodiscard]] std::uint64_t new_transfer() noexcept;

} // namespace farcall::files
