// SPDX-License-Identifier: Apache-2.0
#include "open_file.hpp"
#include "replies.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/uio.h>
#include <unistd.h>

/// Requests of the system that concern the contents of files.
namespace farcall::mount {

namespace {

/// Returns the flags of an open at the host. The path that it gets has no links to be followed.
int host_flags(int flags) noexcept { return (flags & ~(O_EXCL | O_CREAT)) | O_NOFOLLOW; }

/// Takes an open file of the host into `info`, and decides on the use of the system's cache.
void take(mounted_prefix& of, node_number node, const farcall_io_opened_status& opened,
          fuse_file_info& info) {
  const std::uint64_t number = opened.opened.file;
  const bool is_seekable = !of.is_special() || own_link()->seek(number, 0, SEEK_CUR) >= 0;
  // With O_APPEND only the host knows where the bytes of a write end, so that the system must not
  // keep them.
  const bool is_cached = !of.is_special() && (info.flags & O_APPEND) == 0;
  info.fh = reinterpret_cast<std::uint64_t>(
      new open_file{number, node, is_seekable, is_cached, info.flags});
  of.nodes().note_open(node, number);
  info.direct_io = !is_cached;
  info.keep_cache = of.nodes().is_unchanged(node, opened.status);
}

/// Forgets an open file, and closes it at the host.
void leave(mounted_prefix& of, const fuse_file_info& info) {
  const std::unique_ptr<open_file> file(&file_of(info));
  // Owners that are no process have no flush.
  for (const std::uint64_t owner : file->owners)
    (void)unlock_owner(of, *file, owner);
  of.nodes().note_closed(file->node, file->number);
  (void)own_link()->close(file->number);
}

/// Opens a file that the system knows, by its path, or by an open file if it has no path any more.
std::int64_t open_node(mounted_prefix& of, node_number node, int flags,
                       farcall_io_opened_status& opened) {
  // Neither the host nor the target waits for pipes and devices.
  if (of.is_special()) flags |= O_NONBLOCK;
  if (const auto path = of.nodes().path_of(node)) {
    const std::int64_t result = own_link()->open(*path, host_flags(flags), 0, opened);
    if (result < 0) return stale_if_gone(result);
    if (node == root_node || of.nodes().is_same(node, opened.status)) return result;
    (void)own_link()->close(opened.opened.file);
    return -ESTALE;
  }
  return on_node(of, node, [&](std::uint64_t file, const std::string& path) {
    return path.empty() ? own_link()->reopen(file, flags, opened) : std::int64_t{-ESTALE};
  });
}

void open(fuse_req_t request, fuse_ino_t node, fuse_file_info* info) {
  mounted_prefix& of = prefix_of(request);
  farcall_io_opened_status opened{};
  const auto once = [&] { return open_node(of, node, info->flags, opened); };
  // The host replies ENXIO if a pipe has no reader yet.
  const bool waits = of.is_pipe() && (info->flags & O_NONBLOCK) == 0;
  const std::int64_t result = waits ? until_ready(request, -ENXIO, once) : once();
  if (result < 0) return reply_result(request, result);
  take(of, node, opened, *info);
  if (::fuse_reply_open(request, info) != 0) leave(of, *info);
}

void create(fuse_req_t request, fuse_ino_t folder, const char* name, mode_t mode,
            fuse_file_info* info) {
  mounted_prefix& of = prefix_of(request);
  with_path(request, of.nodes().path_of(folder, name), [&](const std::string& path) {
    farcall_io_opened_status opened{};
    const std::int64_t result = own_link()->open(
        path, host_flags(info->flags) | O_CREAT | (info->flags & O_EXCL), mode & 07777, opened);
    if (result < 0) return reply_result(request, result);
    const node_number node = of.nodes().note(folder, name, opened.status);
    take(of, node, opened, *info);
    const fuse_entry_param entry = entry_of(of, node, opened.status);
    if (::fuse_reply_create(request, &entry, info) != 0) {
      leave(of, *info);
      of.nodes().forget(node, 1);
    }
  });
}

/// Returns the offset for a request to the host.
std::int64_t host_offset(const open_file& file, off_t offset) {
  return file.is_seekable ? offset : std::int64_t{FARCALL_IO_AT_POSITION};
}

/// True if a read or write of a pipe or device waits until it is ready.
bool may_wait(fuse_req_t request, const fuse_file_info& info) {
  return prefix_of(request).is_special() && (info.flags & O_NONBLOCK) == 0;
}

void read(fuse_req_t request, fuse_ino_t /*node*/, std::size_t bytes, off_t offset,
          fuse_file_info* info) {
  auto* const to = own_link()->result_memory();
  bytes = std::min(bytes, target_link::max_result);
  const mounted_prefix& of = prefix_of(request);
  const open_file& file = file_of(*info);
  const bool is_ahead = of.reads_ahead() && file.is_cached && (info->flags & O_DIRECT) == 0;
  const auto once = [&] {
    return own_link()->read(file.number, to, bytes, host_offset(file, offset), is_ahead);
  };
  const std::int64_t got = may_wait(request, *info) ? until_ready(request, -EAGAIN, once) : once();
  if (got < 0) return reply_result(request, got);
  (void)::fuse_reply_buf(request, reinterpret_cast<const char*>(to), static_cast<std::size_t>(got));
}

/// Makes the host's open file append if the program's does since fcntl(F_SETFL), and vice versa.
std::int64_t follow_flags(const mounted_prefix& of, open_file& file, int flags) {
  const int before = file.flags.load(std::memory_order_relaxed);
  if (((before ^ flags) & O_APPEND) == 0) return 0;
  file.flags.store(flags, std::memory_order_relaxed);
  return own_link()->set_flags(file.number,
                               (flags & O_APPEND) | (of.is_special() ? O_NONBLOCK : 0));
}

/// Writes to a pipe or device until all bytes are written, or the program is interrupted.
std::int64_t write_on(fuse_req_t request, const open_file& file, const char* from,
                      std::size_t bytes, off_t offset) {
  std::size_t done = 0;
  for (;;) {
    const std::int64_t result = until_ready(request, -EAGAIN, [&] {
      return own_link()->write(file.number, from + done, bytes - done,
                               host_offset(file, offset + static_cast<off_t>(done)));
    });
    if (result > 0) done += static_cast<std::size_t>(result);
    if (result <= 0 || done == bytes) return done > 0 ? static_cast<std::int64_t>(done) : result;
  }
}

void write(fuse_req_t request, fuse_ino_t /*node*/, const char* from, std::size_t bytes,
           off_t offset, fuse_file_info* info) {
  open_file& file = file_of(*info);
  // Pages of a shared mapping may come by any open file, and have their place in the file.
  const int flags = info->writepage != 0 ? 0 : info->flags;
  std::int64_t result = follow_flags(prefix_of(request), file, flags);
  if (result >= 0) {
    result = may_wait(request, *info)
                 ? write_on(request, file, from, bytes, offset)
                 : own_link()->write(file.number, from, bytes, host_offset(file, offset));
  }
  // Set after the write was sent, because a flush of another descriptor may take the mark at any
  // time. Relaxed: the system sends the flush of this program after the reply.
  file.is_written.store(true, std::memory_order_relaxed);
  if (result < 0) return reply_result(request, result);
  (void)::fuse_reply_write(request, static_cast<std::size_t>(result));
}

void flush(fuse_req_t request, fuse_ino_t /*node*/, fuse_file_info* info) {
  open_file& file = file_of(*info);
  const bool was_written = file.is_written.exchange(false, std::memory_order_relaxed);
  const std::int64_t result = was_written ? own_link()->flush(file.number) : 0;
  // A process loses its locks on a file with each descriptor that it closes.
  (void)unlock_owner(prefix_of(request), file, info->lock_owner);
  // Later locks of the process come by other open files, and this one may stay open longer.
  file.forget_owner(info->lock_owner);
  reply_result(request, result);
}

void release(fuse_req_t request, fuse_ino_t /*node*/, fuse_file_info* info) {
  leave(prefix_of(request), *info);
  reply_result(request, 0);
}

void synchronize(fuse_req_t request, fuse_ino_t /*node*/, int data_only, fuse_file_info* info) {
  reply_result(request, own_link()->fsync(file_of(*info).number, data_only));
}

void allocate(fuse_req_t request, fuse_ino_t /*node*/, int mode, off_t offset, off_t bytes,
              fuse_file_info* info) {
  reply_result(request, own_link()->allocate(file_of(*info).number, mode, offset,
                                             static_cast<std::uint64_t>(bytes)));
}

void seek(fuse_req_t request, fuse_ino_t /*node*/, off_t offset, int whence, fuse_file_info* info) {
  const std::int64_t result = own_link()->seek(file_of(*info).number, offset, whence);
  if (result < 0) return reply_result(request, result);
  (void)::fuse_reply_lseek(request, result);
}

void copy_range(fuse_req_t request, fuse_ino_t /*node*/, off_t from_offset, fuse_file_info* from,
                fuse_ino_t /*to_node*/, off_t to_offset, fuse_file_info* to, std::size_t bytes,
                int flags) {
  if (flags != 0) return reply_result(request, -EINVAL);
  const farcall_io_source source{file_of(*from).number, from_offset};
  std::int64_t result = own_link()->flush(source.file);
  if (result >= 0) result = own_link()->copy_range(file_of(*to).number, to_offset, bytes, &source);
  if (result < 0) return reply_result(request, result);
  (void)::fuse_reply_write(request, static_cast<std::size_t>(result));
}

/// Converts an attribute for a reply that libfuse does not write.
fuse_attr attribute_of(const struct stat& s) noexcept {
  fuse_attr made{};
  made.ino = s.st_ino;
  made.size = static_cast<std::uint64_t>(s.st_size);
  made.blocks = static_cast<std::uint64_t>(s.st_blocks);
  made.atime = static_cast<std::uint64_t>(s.st_atim.tv_sec);
  made.mtime = static_cast<std::uint64_t>(s.st_mtim.tv_sec);
  made.ctime = static_cast<std::uint64_t>(s.st_ctim.tv_sec);
  made.atimensec = static_cast<std::uint32_t>(s.st_atim.tv_nsec);
  made.mtimensec = static_cast<std::uint32_t>(s.st_mtim.tv_nsec);
  made.ctimensec = static_cast<std::uint32_t>(s.st_ctim.tv_nsec);
  made.mode = s.st_mode;
  made.nlink = static_cast<std::uint32_t>(s.st_nlink);
  made.uid = s.st_uid;
  made.gid = s.st_gid;
  made.blksize = static_cast<std::uint32_t>(s.st_blksize);
  return made;
}

/// Reply to an open of a file without a name.
struct unnamed_reply {
  fuse_entry_out entry;
  fuse_open_out opened;
};

/// Opens a file without a name (O_TMPFILE). Returns 0 or -errno.
int open_unnamed(mounted_prefix& of, const fuse_in_header& head, const fuse_create_in& wanted,
                 fuse_file_info& info, unnamed_reply& reply) {
  const auto folder = of.nodes().path_of(head.nodeid);
  if (!folder) return -ESTALE;
  info.flags = static_cast<int>(wanted.flags);
  farcall_io_opened_status opened{};
  const std::int64_t result = own_link()->open(*folder, (info.flags & ~O_CREAT) | O_TMPFILE,
                                               wanted.mode & 07777 & ~wanted.umask, opened);
  if (result < 0) return -errno_of(result);
  const node_number node = of.nodes().note_unnamed(opened.status);
  take(of, node, opened, info);
  const fuse_entry_param entry = entry_of(of, node, opened.status);
  reply.entry.nodeid = node;
  reply.entry.generation = entry.generation;
  reply.entry.attr_valid = static_cast<std::uint64_t>(entry.attr_timeout);
  reply.entry.attr = attribute_of(entry.attr);
  reply.opened.fh = info.fh;
  return 0;
}

} // namespace

bool serve_unknown(mounted_prefix& of, const fuse_buf& request) {
  fuse_in_header head{};
  if (request.size < sizeof head) return false;
  std::memcpy(&head, request.mem, sizeof head);
  fuse_create_in wanted{};
  if (head.opcode != FUSE_TMPFILE || request.size < sizeof head + sizeof wanted) return false;
  std::memcpy(&wanted, static_cast<const char*>(request.mem) + sizeof head, sizeof wanted);
  fuse_file_info info{};
  unnamed_reply reply{};
  fuse_out_header out{};
  out.unique = head.unique;
  out.error = open_unnamed(of, head, wanted, info, reply);
  out.len = static_cast<std::uint32_t>(sizeof out + (out.error == 0 ? sizeof reply : 0));
  const iovec parts[] = {{&out, sizeof out}, {&reply, sizeof reply}};
  const bool is_opened = out.error == 0;
  const ssize_t sent = ::writev(::fuse_session_fd(of.session()), parts, is_opened ? 2 : 1);
  // The system does not know the file if the request was interrupted.
  if (sent < 0 && is_opened) {
    leave(of, info);
    of.nodes().forget(reply.entry.nodeid, 1);
  }
  return true;
}

void add_file_operations(fuse_lowlevel_ops& to) noexcept {
  to.open = open;
  to.create = create;
  to.read = read;
  to.write = write;
  to.flush = flush;
  to.release = release;
  to.fsync = synchronize;
  to.fallocate = allocate;
  to.lseek = seek;
  to.copy_file_range = copy_range;
}

} // namespace farcall::mount
