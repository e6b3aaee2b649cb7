// SPDX-License-Identifier: Apache-2.0
#include "open_file.hpp"
#include "replies.hpp"

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/statvfs.h>

/// Requests of the system that concern names and attributes.
namespace farcall::mount {
namespace {

void begin(void* user, fuse_conn_info* connection) noexcept {
  auto& of = *static_cast<mounted_prefix*>(user);
  connection->want &=
      ~static_cast<unsigned>(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE |
                             FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_WRITEBACK_CACHE);
  unsigned wanted = FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ATOMIC_O_TRUNC |
                    FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO;
  if (of.is_strict()) wanted |= FUSE_CAP_AUTO_INVAL_DATA;
  connection->want |= connection->capable & wanted;
  connection->max_write = static_cast<unsigned>(target_link::max_result);
  connection->max_readahead = static_cast<unsigned>(target_link::max_result);
  connection->max_background = 64;
  connection->congestion_threshold = 48;
  of.note_begin();
}

void look_up(fuse_req_t request, fuse_ino_t folder, const char* name) {
  reply_entry(request, folder, name);
}

void forget(fuse_req_t request, fuse_ino_t node, std::uint64_t times) {
  prefix_of(request).nodes().forget(node, times);
  ::fuse_reply_none(request);
}

void forget_many(fuse_req_t request, std::size_t count, fuse_forget_data* all) {
  for (std::size_t i = 0; i < count; ++i)
    prefix_of(request).nodes().forget(all[i].ino, all[i].nlookup);
  ::fuse_reply_none(request);
}

void get_attributes(fuse_req_t request, fuse_ino_t node, fuse_file_info* /*file*/) {
  mounted_prefix& of = prefix_of(request);
  farcall_io_status status{};
  if (const std::int64_t result = status_of_node(of, node, status); result < 0)
    return reply_result(request, result);
  const struct stat shown = shown_status(of, status);
  (void)::fuse_reply_attr(request, &shown, of.cache_seconds());
}

/// Returns the times that a request sets.
farcall_io_times times_of(const struct stat& wanted, int chosen) {
  farcall_io_times times{0, UTIME_OMIT, 0, UTIME_OMIT};
  if ((chosen & FUSE_SET_ATTR_ATIME) != 0) {
    times.accessed = wanted.st_atim.tv_sec;
    times.accessed_ns = wanted.st_atim.tv_nsec;
  }
  if ((chosen & FUSE_SET_ATTR_MTIME) != 0) {
    times.modified = wanted.st_mtim.tv_sec;
    times.modified_ns = wanted.st_mtim.tv_nsec;
  }
  if ((chosen & FUSE_SET_ATTR_ATIME_NOW) != 0) times.accessed_ns = UTIME_NOW;
  if ((chosen & FUSE_SET_ATTR_MTIME_NOW) != 0) times.modified_ns = UTIME_NOW;
  return times;
}

/// Sets the attributes of the file with this path, or of an open file if the path is empty.
std::int64_t set_attributes_of(std::uint64_t file, const std::string& path,
                               const struct stat& wanted, int chosen) {
  target_link& link = *own_link();
  std::int64_t result = 0;
  if ((chosen & FUSE_SET_ATTR_MODE) != 0)
    result = link.set_mode(file, path, wanted.st_mode & 07777);
  if (result >= 0 && (chosen & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0) {
    constexpr auto unchanged = static_cast<std::uint32_t>(-1);
    result =
        link.set_owner(file, path, 0, (chosen & FUSE_SET_ATTR_UID) != 0 ? wanted.st_uid : unchanged,
                       (chosen & FUSE_SET_ATTR_GID) != 0 ? wanted.st_gid : unchanged);
  }
  constexpr int all_times =
      FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW;
  if (result >= 0 && (chosen & all_times) != 0) {
    const farcall_io_times times = times_of(wanted, chosen);
    result = link.set_times(file, path, 0, &times);
  }
  return result;
}

/// Sets the size of a file for a program that has not opened it.
std::int64_t truncate(mounted_prefix& of, node_number node, off_t size) {
  if (const auto path = of.nodes().path_of(node))
    return stale_if_gone(own_link()->truncate(*path, size));
  return on_node(of, node, [&](std::uint64_t open, const std::string& path) -> std::int64_t {
    if (!path.empty()) return -ESTALE;
    // The file may be open for reading only.
    farcall_io_opened_status opened{};
    const std::int64_t result = own_link()->reopen(open, O_WRONLY, opened);
    if (result < 0) return result;
    const std::int64_t truncated = own_link()->ftruncate(opened.opened.file, size);
    (void)own_link()->close(opened.opened.file);
    return truncated;
  });
}

void set_attributes(fuse_req_t request, fuse_ino_t node, struct stat* wanted, int chosen,
                    fuse_file_info* file) {
  mounted_prefix& of = prefix_of(request);
  std::int64_t result = 0;
  if ((chosen & FUSE_SET_ATTR_SIZE) != 0) {
    result = file != nullptr ? own_link()->ftruncate(file->fh, wanted->st_size)
                             : truncate(of, node, wanted->st_size);
  }
  if (result >= 0) {
    result = on_node(of, node, [&](std::uint64_t open, const std::string& path) {
      return set_attributes_of(open, path, *wanted, chosen);
    });
  }
  if (result < 0) return reply_result(request, result);
  get_attributes(request, node, nullptr);
}

void read_link(fuse_req_t request, fuse_ino_t node) {
  with_path(request, prefix_of(request).nodes().path_of(node), [&](const std::string& path) {
    std::array<char, PATH_MAX + 1> text{};
    const std::int64_t result = own_link()->read_link(path, text.data(), PATH_MAX);
    if (result < 0) return reply_result(request, stale_if_gone(result));
    text.at(static_cast<std::size_t>(result)) = '\0';
    (void)::fuse_reply_readlink(request, text.data());
  });
}

/// Makes a file by `f`, which gets its path, and replies the file.
template <class F>
void make(fuse_req_t request, fuse_ino_t folder, const char* name, const F& f) {
  with_path(request, prefix_of(request).nodes().path_of(folder, name),
            [&](const std::string& path) {
              const std::int64_t result = f(path);
              if (result < 0) return reply_result(request, result);
              reply_entry(request, folder, name);
            });
}

void make_node(fuse_req_t request, fuse_ino_t folder, const char* name, mode_t mode,
               dev_t /*device*/) {
  if (!S_ISREG(mode)) return reply_result(request, -EPERM);
  make(request, folder, name, [&](const std::string& path) {
    farcall_io_opened_status opened{};
    const std::int64_t result =
        own_link()->open(path, O_WRONLY | O_CREAT | O_EXCL, mode & 07777, opened);
    return result < 0 ? result : own_link()->close(opened.opened.file);
  });
}

void make_folder(fuse_req_t request, fuse_ino_t folder, const char* name, mode_t mode) {
  make(request, folder, name,
       [&](const std::string& path) { return own_link()->mkdir(path, mode & 07777); });
}

void make_symbolic_link(fuse_req_t request, const char* content, fuse_ino_t folder,
                        const char* name) {
  make(request, folder, name,
       [&](const std::string& path) { return own_link()->symlink(content, path); });
}

void make_link(fuse_req_t request, fuse_ino_t node, fuse_ino_t folder, const char* name) {
  mounted_prefix& of = prefix_of(request);
  const auto from = of.nodes().path_of(node);
  make(request, folder, name, [&](const std::string& path) {
    if (from) return own_link()->link(*from, path, 0);
    // A file may have no name, after unlink() or by O_TMPFILE.
    return on_node(of, node, [&](std::uint64_t open, const std::string& again) {
      return again.empty() ? own_link()->link_open(open, path) : own_link()->link(again, path, 0);
    });
  });
}

void remove_file(fuse_req_t request, fuse_ino_t folder, const char* name) {
  node_table& nodes = prefix_of(request).nodes();
  with_path(request, nodes.path_of(folder, name), [&](const std::string& path) {
    const std::int64_t result = own_link()->unlink(path);
    if (result >= 0) nodes.note_removed(folder, name);
    reply_result(request, result);
  });
}

void remove_folder(fuse_req_t request, fuse_ino_t folder, const char* name) {
  node_table& nodes = prefix_of(request).nodes();
  with_path(request, nodes.path_of(folder, name), [&](const std::string& path) {
    const std::int64_t result = own_link()->rmdir(path);
    if (result >= 0) nodes.note_removed(folder, name);
    reply_result(request, result);
  });
}

void rename(fuse_req_t request, fuse_ino_t folder, const char* name, fuse_ino_t to_folder,
            const char* to_name, unsigned flags) {
  node_table& nodes = prefix_of(request).nodes();
  const auto to = nodes.path_of(to_folder, to_name);
  if (!to) return reply_result(request, -ESTALE);
  with_path(request, nodes.path_of(folder, name), [&](const std::string& from) {
    const std::int64_t result = own_link()->rename(from, *to, static_cast<int>(flags));
    if (result >= 0)
      nodes.note_renamed(folder, name, to_folder, to_name, (flags & RENAME_EXCHANGE) != 0);
    reply_result(request, result);
  });
}

void check_access(fuse_req_t request, fuse_ino_t node, int mode) {
  const auto path = prefix_of(request).nodes().path_of(node);
  reply_result(request, path ? stale_if_gone(own_link()->access(*path, mode)) : 0);
}

void get_space(fuse_req_t request, fuse_ino_t /*node*/) {
  farcall_io_space space{};
  const std::int64_t result = own_link()->space(0, prefix_of(request).path(), &space);
  if (result < 0) return reply_result(request, result);
  struct statvfs shown{};
  shown.f_bsize = space.block_size;
  shown.f_frsize = space.fragment_size;
  shown.f_blocks = space.blocks;
  shown.f_bfree = space.free_blocks;
  shown.f_bavail = space.available_blocks;
  shown.f_files = space.files;
  shown.f_ffree = space.free_files;
  shown.f_favail = space.available_files;
  shown.f_namemax = space.max_name;
  (void)::fuse_reply_statfs(request, &shown);
}

} // namespace

void add_name_operations(fuse_lowlevel_ops& to) noexcept {
  to.init = begin;
  to.lookup = look_up;
  to.forget = forget;
  to.forget_multi = forget_many;
  to.getattr = get_attributes;
  to.setattr = set_attributes;
  to.readlink = read_link;
  to.mknod = make_node;
  to.mkdir = make_folder;
  to.symlink = make_symbolic_link;
  to.link = make_link;
  to.unlink = remove_file;
  to.rmdir = remove_folder;
  to.rename = rename;
  to.access = check_access;
  to.statfs = get_space;
}

} // namespace farcall::mount
