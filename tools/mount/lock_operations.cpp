// SPDX-License-Identifier: Apache-2.0
#include "open_file.hpp"
#include "replies.hpp"
#include "waiting_requests.hpp"

#include <cerrno>
#include <chrono>

#include <fcntl.h>
#include <sys/file.h>

/// Requests of the system that concern locks. They are the host's locks.
namespace farcall::mount {
namespace {

farcall_io_lock lock_of(const fuse_file_info& info, const struct flock& wanted) noexcept {
  return {info.lock_owner, wanted.l_start, wanted.l_len, wanted.l_type};
}

/// Drops contents that the system has kept if the file has changed at the host. Called with a new
/// lock, because the program now expects what others have written before they gave up theirs.
void drop_old_contents(mounted_prefix& of, const open_file& file) {
  farcall_io_status status{};
  if (own_link()->fstat(file.number, &status) < 0) return;
  if (!of.nodes().is_unchanged(file.node, status))
    (void)::fuse_lowlevel_notify_inval_inode(of.session(), file.node, 0, 0);
}

/// Sets or removes a lock. Returns 0, or -errno.
std::int64_t set_lock(mounted_prefix& of, open_file& file, int command,
                      const farcall_io_lock& wanted) {
  farcall_io_lock found{};
  const std::int64_t result = own_link()->lock(file.number, command, &wanted, &found);
  if (result < 0 || wanted.type == F_UNLCK) return result;
  if (command == FARCALL_IO_LOCK_SET) {
    of.nodes().note_lock(file.node, wanted.owner);
    file.note_owner(wanted.owner);
  }
  drop_old_contents(of, file);
  return result;
}

/// True if another lock excludes the requested one.
bool is_excluded(std::int64_t result) noexcept { return result == -EAGAIN || result == -EACCES; }

/// Sets a lock, and waits for it if the program wants that.
void set_and_reply(fuse_req_t request, open_file& file, int command, const farcall_io_lock& wanted,
                   bool waits) {
  mounted_prefix& of = prefix_of(request);
  const std::int64_t first = set_lock(of, file, command, wanted);
  if (!waits || !is_excluded(first)) return reply_result(request, first);
  constexpr waiting_requests::pauses how_long{std::chrono::milliseconds(1),
                                              std::chrono::milliseconds(100)};
  // The file stays open until the system has the reply.
  of.waiting().add(request, how_long, [&of, &file, request, command, wanted](bool is_interrupted) {
    const std::int64_t result = is_interrupted ? -EINTR : set_lock(of, file, command, wanted);
    if (is_excluded(result)) return false;
    reply_result(request, result);
    return true;
  });
}

void test_lock(fuse_req_t request, fuse_ino_t /*node*/, fuse_file_info* info,
               struct flock* wanted) {
  const farcall_io_lock asked = lock_of(*info, *wanted);
  farcall_io_lock found{};
  const std::int64_t result = own_link()->lock(info->fh, FARCALL_IO_LOCK_TEST, &asked, &found);
  if (result < 0) return reply_result(request, result);
  struct flock reply{};
  reply.l_type = static_cast<short>(found.type);
  reply.l_whence = SEEK_SET;
  reply.l_start = found.start;
  reply.l_len = found.bytes;
  (void)::fuse_reply_lock(request, &reply);
}

void set_range_lock(fuse_req_t request, fuse_ino_t /*node*/, fuse_file_info* info,
                    struct flock* wanted, int waits) {
  set_and_reply(request, prefix_of(request).file_of(*info), FARCALL_IO_LOCK_SET,
                lock_of(*info, *wanted), waits != 0);
}

void set_whole_lock(fuse_req_t request, fuse_ino_t /*node*/, fuse_file_info* info, int wanted) {
  const int kind = wanted & ~LOCK_NB;
  const int type = kind == LOCK_SH ? F_RDLCK : kind == LOCK_EX ? F_WRLCK : F_UNLCK;
  set_and_reply(request, prefix_of(request).file_of(*info), FARCALL_IO_LOCK_WHOLE, {0, 0, 0, type},
                (wanted & LOCK_NB) == 0);
}

} // namespace

std::int64_t unlock_owner(mounted_prefix& of, const open_file& file, std::uint64_t owner) {
  if (!of.nodes().forget_lock(file.node, owner)) return 0;
  const farcall_io_lock all{owner, 0, 0, F_UNLCK};
  farcall_io_lock found{};
  return own_link()->lock(file.number, FARCALL_IO_LOCK_SET, &all, &found);
}

void add_lock_operations(fuse_lowlevel_ops& to) noexcept {
  to.getlk = test_lock;
  to.setlk = set_range_lock;
  to.flock = set_whole_lock;
}

} // namespace farcall::mount
