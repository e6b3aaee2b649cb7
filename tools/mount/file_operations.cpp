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
/// Returns the number of the file for the reply if the system reads and writes the file itself,
/// otherwise 0.
backing_id take(mounted_prefix& of, node_number node, const farcall_io_opened_status& opened,
                fuse_file_info& info) {
  const std::uint64_t number = opened.opened.file;
  const bool is_seekable = !of.is_special() || own_link()->seek(number, 0, SEEK_CUR) >= 0;
  // With O_APPEND only the host knows where the bytes of a write end, so that the system must not
  // keep them.
  const bool is_cached = !of.is_special() && (info.flags & O_APPEND) == 0;
  const bool is_writable = (info.flags & O_ACCMODE) != O_RDONLY;
  info.fh = number;
  (void)of.files().add(
      std::make_unique<open_file>(number, node, is_seekable, is_cached, is_writable, info.flags));
  of.nodes().note_open(node, number);
  info.direct_io = !is_cached;
  info.keep_cache = of.nodes().is_unchanged(node, opened.status);
  return of.backing().enter(node, own_link()->take_passed());
}

/// Forgets an open file, and closes it at the host.
void leave(mounted_prefix& of, const fuse_file_info& info) {
  const std::unique_ptr<open_file> file = of.files().take(info.fh);
  // Owners that are no process have no flush.
  for (const std::uint64_t owner : file->owners)
    (void)unlock_owner(of, *file, owner);
  of.nodes().note_closed(file->node, file->number);
  of.backing().leave(file->node);
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
  const auto opened = std::make_shared<farcall_io_opened_status>();
  const auto once = [&of, node, flags = info->flags, opened] {
    return open_node(of, node, flags, *opened);
  };
  const auto reply = [&of, request, node, opened, given = *info](std::int64_t result) {
    if (result < 0) return reply_result(request, result);
    fuse_file_info taken = given;
    set_backing_of_next_reply(take(of, node, *opened, taken));
    if (::fuse_reply_open(request, &taken) != 0) leave(of, taken);
  };
  if (!of.is_pipe() || (info->flags & O_NONBLOCK) != 0) return reply(once());
  // The host replies ENXIO if a pipe has no reader yet.
  reply_when_ready(request, -ENXIO, once, reply);
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
    set_backing_of_next_reply(take(of, node, opened, *info));
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
  bytes = std::min(bytes, target_link::max_result);
  mounted_prefix& of = prefix_of(request);
  const open_file& file = of.file_of(*info);
  const bool is_ahead = of.reads_ahead() && file.is_cached && (info->flags & O_DIRECT) == 0;
  // The file stays open until the system has the reply.
  const auto once = [&file, bytes, offset, is_ahead] {
    return own_link()->read(file.number, own_link()->result_memory(), bytes,
                            host_offset(file, offset), is_ahead);
  };
  const auto reply = [request](std::int64_t got) {
    if (got < 0) return reply_result(request, got);
    (void)::fuse_reply_buf(request, reinterpret_cast<const char*>(own_link()->result_memory()),
                           static_cast<std::size_t>(got));
  };
  if (!may_wait(request, *info)) return reply(once());
  reply_when_ready(request, -EAGAIN, once, reply);
}

/// Makes the host's open file append if the program's does since fcntl(F_SETFL), and vice versa.
std::int64_t follow_flags(const mounted_prefix& of, open_file& file, int flags) {
  const int before = file.flags.load(std::memory_order_relaxed);
  if (((before ^ flags) & O_APPEND) == 0) return 0;
  file.flags.store(flags, std::memory_order_relaxed);
  return own_link()->set_flags(file.number,
                               (flags & O_APPEND) | (of.is_special() ? O_NONBLOCK : 0));
}

void reply_written(fuse_req_t request, std::int64_t result) {
  if (result < 0) return reply_result(request, result);
  (void)::fuse_reply_write(request, static_cast<std::size_t>(result));
}

/// A write to a pipe or device, which may take several tries.
struct write_in_parts {
  const open_file& file;
  std::string left; ///< bytes that are not written yet
  off_t offset;     ///< of the first of them
  std::size_t done = 0;

  /// Writes the rest. Returns -EAGAIN if not everything could be written yet.
  std::int64_t operator()() {
    // Shared with the target, and free, because a write has no result.
    auto* const from = own_link()->result_memory();
    std::size_t begun = 0;
    std::int64_t result = 0;
    while (begun < left.size()) {
      const std::size_t bytes = std::min(left.size() - begun, target_link::max_result);
      std::memcpy(from, left.data() + begun, bytes);
      result = own_link()->write(file.number, from, bytes, host_offset(file, offset));
      if (result <= 0) break;
      begun += static_cast<std::size_t>(result);
      offset += result;
    }
    left.erase(0, begun);
    done += begun;
    return result > 0 ? 0 : result;
  }
};

/// Writes to a pipe or device until all bytes are written, or the program is interrupted.
void write_on(fuse_req_t request, const open_file& file, const char* from, std::size_t bytes,
              off_t offset) {
  // Shared, because the reply tells how many bytes were written before an error.
  const auto parts =
      std::make_shared<write_in_parts>(write_in_parts{file, std::string(from, bytes), offset});
  reply_when_ready(
      request, -EAGAIN, [parts] { return (*parts)(); },
      [request, parts](std::int64_t result) {
        reply_written(request, parts->done > 0 ? static_cast<std::int64_t>(parts->done) : result);
      });
}

void write(fuse_req_t request, fuse_ino_t /*node*/, const char* from, std::size_t bytes,
           off_t offset, fuse_file_info* info) {
  open_file& file = prefix_of(request).file_of(*info);
  // Pages of a shared mapping may come by any open file, and have their place in the file.
  const int flags = info->writepage != 0 ? 0 : info->flags;
  const std::int64_t result = follow_flags(prefix_of(request), file, flags);
  if (result < 0) return reply_result(request, result);
  // The file stays open until the system has the reply.
  if (may_wait(request, *info)) return write_on(request, file, from, bytes, offset);
  reply_written(request, own_link()->write(file.number, from, bytes, host_offset(file, offset)));
}

void flush(fuse_req_t request, fuse_ino_t /*node*/, fuse_file_info* info) {
  open_file& file = prefix_of(request).file_of(*info);
  const std::int64_t result = file.is_writable ? own_link()->flush(file.number) : 0;
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
  reply_result(request, own_link()->fsync(info->fh, data_only));
}

void allocate(fuse_req_t request, fuse_ino_t /*node*/, int mode, off_t offset, off_t bytes,
              fuse_file_info* info) {
  reply_result(request,
               own_link()->allocate(info->fh, mode, offset, static_cast<std::uint64_t>(bytes)));
}

void seek(fuse_req_t request, fuse_ino_t /*node*/, off_t offset, int whence, fuse_file_info* info) {
  const std::int64_t result = own_link()->seek(info->fh, offset, whence);
  if (result < 0) return reply_result(request, result);
  (void)::fuse_reply_lseek(request, result);
}

void copy_range(fuse_req_t request, fuse_ino_t /*node*/, off_t from_offset, fuse_file_info* from,
                fuse_ino_t /*to_node*/, off_t to_offset, fuse_file_info* to, std::size_t bytes,
                int flags) {
  if (flags != 0) return reply_result(request, -EINVAL);
  const farcall_io_source source{from->fh, from_offset};
  std::int64_t result = own_link()->flush(source.file);
  if (result >= 0) result = own_link()->copy_range(to->fh, to_offset, bytes, &source);
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
  const backing_id id = take(of, node, opened, info);
  const fuse_entry_param entry = entry_of(of, node, opened.status);
  reply.entry.nodeid = node;
  reply.entry.generation = entry.generation;
  reply.entry.attr_valid = static_cast<std::uint64_t>(entry.attr_timeout);
  reply.entry.attr = attribute_of(entry.attr);
  reply.opened.fh = info.fh;
  set_backing(reply.opened, id);
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
