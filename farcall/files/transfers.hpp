#pragma once

#include <farcall/files/host_requests.hpp>
#include <farcall/files/user_memory.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

/// Reads and writes that have been done when they return.
namespace farcall::files {

/// Pieces of one read or write that are under way at a time.
inline constexpr std::size_t pieces_in_flight = 4;

/// As pread(2), or read(2) with at_position; -EFAULT where `to` cannot be written to. Those of more
/// than `largest_piece` bytes go in pieces, several under way at a time, so that the host's files
/// and the way to it are busy at once: not atomic. Throws as host_requests::send().
[[nodiscard]] std::int64_t read_now(host_requests& host, std::uint64_t file, void* to,
                                    std::size_t bytes, std::int64_t offset);
/// The same for pwrite(2) and write(2), of bytes that are there.
[[nodiscard]] std::int64_t write_now(host_requests& host, std::uint64_t file,
                                     std::span<const std::byte> from, std::int64_t offset);

/// What `use` returns for the bytes, of which the system has found that they are there: it gets a
/// copy of few. -EFAULT: they are not.
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

/// A number for the pieces of one transfer, by which the host knows that they belong together.
[[nodiscard]] std::uint64_t new_transfer() noexcept;

} // namespace farcall::files
