// SPDX-License-Identifier: Apache-2.0
#include "passthrough.hpp"

#include <farcall/base/error.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace farcall::mount {
namespace {

// Definitions of the system that Debian's headers lack.
struct backing_map {
  std::int32_t fd;
  std::uint32_t flags;
  std::uint64_t padding;
};
constexpr unsigned long open_backing = _IOW(FUSE_DEV_IOC_MAGIC, 1, backing_map);
constexpr unsigned long close_backing = _IOW(FUSE_DEV_IOC_MAGIC, 2, std::uint32_t);
constexpr std::uint32_t open_passes_through = 1U << 7;
/// Flag FUSE_PASSTHROUGH: bit 37 of the flags, which is in their second word.
constexpr std::uint32_t passes_through = 1U << 5;
/// Flag FUSE_OVER_IO_URING: bit 41.
constexpr std::uint32_t uses_ring = 1U << 9;
/// Flag FUSE_DIRECT_IO_ALLOW_MMAP (Linux 6.6): bit 36. Files that are not cached, such as files
/// that are opened with O_APPEND, may have shared mappings.
constexpr std::uint32_t maps_uncached = 1U << 4;
/// Flag of the first word that says that there is a second one.
constexpr std::uint32_t has_second_word = 1U << 30;
/// Number of file systems that may be stacked, including the mount. This is the maximum of the
/// system. The host's file may be on an overlay.
constexpr std::uint32_t max_depth = 2;

/// Milliseconds to wait for the first request of a mount.
constexpr int first_within_ms = 1000;

thread_local backing_id next_id = 0;
/// Additions in the second word for which the next reply asks, because it is the first one.
thread_local std::uint32_t next_asked = 0;

/// Calls `change` with a copy of a structure at the end of the last part, and puts the copy there.
template <class T, class F>
void change_end(std::span<iovec> parts, const F& change) noexcept {
  const iovec& last = parts.back();
  if (parts.size() < 2 || last.iov_len < sizeof(T)) return;
  auto* const at = static_cast<std::byte*>(last.iov_base) + last.iov_len - sizeof(T);
  T copy;
  std::memcpy(&copy, at, sizeof copy);
  change(copy);
  std::memcpy(at, &copy, sizeof copy);
}

/// Asks for passthrough, and passes this program's file. Returns the reason why that is refused, or
/// an empty text.
std::string pass_own_file(int device, const fuse_in_header& request) {
  struct {
    fuse_out_header head;
    fuse_init_out body;
  } reply{};
  reply.head = {sizeof reply, 0, request.unique};
  reply.body.major = FUSE_KERNEL_VERSION;
  reply.body.minor = FUSE_KERNEL_MINOR_VERSION;
  reply.body.max_write = 4096;
  reply.body.flags = has_second_word;
  reply.body.flags2 = passes_through;
  reply.body.unused[0] = max_depth;
  const unique_fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  backing_map map{file.get(), 0, 0};
  if (::write(device, &reply, sizeof reply) != static_cast<ssize_t>(sizeof reply) ||
      ::ioctl(device, open_backing, &map) <= 0)
    return reason_text(errno);
  return {};
}

} // namespace

additions additions_of(int device) {
  additions found;
  struct {
    fuse_in_header head;
    fuse_init_in body;
    // The system demands memory for its largest request.
    std::array<std::byte, FUSE_MIN_READ_BUFFER> rest;
  } request{};
  pollfd ready{device, POLLIN, 0};
  if (::poll(&ready, 1, first_within_ms) != 1 ||
      ::read(device, &request, sizeof request) <
          static_cast<ssize_t>(sizeof request.head + sizeof request.body) ||
      request.head.opcode != FUSE_INIT) {
    found.why_no_passthrough = "the system does not begin to use the mount";
    return found;
  }
  const bool has_second = (request.body.flags & has_second_word) != 0;
  found.has_ring = has_second && (request.body.flags2 & uses_ring) != 0;
  found.why_no_passthrough = has_second && (request.body.flags2 & passes_through) != 0
                                 ? pass_own_file(device, request.head)
                                 : "the system does not offer it, as Linux does from 6.9 on";
  return found;
}

backing_id backing_files::enter(node_number node, const unique_fd& passed) {
  const std::lock_guard guard(mutex_);
  use& of_node = uses_[node];
  // The system refuses an open file with another number than the node's other open files.
  if (of_node.count++ == 0 && passed) {
    const backing_map map{passed.get(), 0, 0};
    of_node.id = ::ioctl(device_, open_backing, &map);
    if (of_node.id < 0) of_node.id = 0;
  }
  return of_node.id;
}

void backing_files::leave(node_number node) noexcept {
  const std::lock_guard guard(mutex_);
  const auto at = uses_.find(node);
  if (at == uses_.end() || --at->second.count > 0) return;
  auto id = static_cast<std::uint32_t>(at->second.id);
  if (id != 0) (void)::ioctl(device_, close_backing, &id);
  uses_.erase(at);
}

void set_backing(fuse_open_out& reply, backing_id id) noexcept {
  if (id == 0) return;
  reply.open_flags = open_passes_through;
  reply.padding = static_cast<std::uint32_t>(id);
}

void set_backing_of_next_reply(backing_id id) noexcept { next_id = id; }

void note_first_request(const fuse_init_in& offered) noexcept {
  if ((offered.flags & has_second_word) == 0) return;
  next_asked = offered.flags2 & (passes_through | maps_uncached);
}

ssize_t write_reply(int device, iovec* parts, int count, void* /*user*/) noexcept {
  const std::span<iovec> all(parts, static_cast<std::size_t>(count));
  if (const backing_id id = std::exchange(next_id, 0); id != 0)
    change_end<fuse_open_out>(all, [&](fuse_open_out& reply) { set_backing(reply, id); });
  if (const std::uint32_t asked = std::exchange(next_asked, 0); asked != 0) {
    change_end<fuse_init_out>(all, [asked](fuse_init_out& reply) {
      reply.flags |= has_second_word;
      reply.flags2 |= asked;
      if ((asked & passes_through) != 0) reply.unused[0] = max_depth;
    });
  }
  return ::writev(device, parts, count);
}

ssize_t read_request(int device, void* to, std::size_t bytes, void* /*user*/) noexcept {
  return ::read(device, to, bytes);
}

} // namespace farcall::mount
