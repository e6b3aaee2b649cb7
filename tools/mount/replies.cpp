// SPDX-License-Identifier: Apache-2.0
#include "replies.hpp"

#include <algorithm>
#include <cerrno>

namespace farcall::mount {

struct stat shown_status(const mounted_prefix& of, const farcall_io_status& s) noexcept {
  struct stat shown{};
  shown.st_ino = of.shown_inode(s);
  shown.st_mode = static_cast<mode_t>(s.mode);
  if (of.is_special()) shown.st_mode = S_IFREG | (shown.st_mode & 07777);
  shown.st_nlink = s.links;
  shown.st_uid = static_cast<uid_t>(s.user);
  shown.st_gid = static_cast<gid_t>(s.group);
  shown.st_rdev = of.is_special() ? 0 : s.special;
  shown.st_size = std::max(s.size, of.device_bytes());
  shown.st_blksize = s.block_size;
  shown.st_blocks = s.blocks;
  shown.st_atim = {s.accessed, s.accessed_ns};
  shown.st_mtim = {s.modified, s.modified_ns};
  shown.st_ctim = {s.changed, s.changed_ns};
  return shown;
}

fuse_entry_param entry_of(const mounted_prefix& of, node_number node,
                          const farcall_io_status& status) noexcept {
  fuse_entry_param entry{};
  entry.ino = node;
  // Node numbers are never used again.
  entry.generation = 1;
  entry.attr = shown_status(of, status);
  entry.attr_timeout = of.cache_seconds();
  entry.entry_timeout = of.cache_seconds();
  return entry;
}

std::int64_t status_of_node(mounted_prefix& of, node_number node, farcall_io_status& status) {
  const std::int64_t result = on_node(of, node, [&](std::uint64_t file, const std::string& path) {
    if (path.empty()) return own_link()->fstat(file, &status);
    const bool is_root = node == root_node;
    const std::int64_t got = own_link()->stat(path, is_root ? 1 : 0, &status);
    return got < 0 || is_root || of.nodes().is_same(node, status) ? got : -ESTALE;
  });
  if (result >= 0) of.nodes().note_status(node, status);
  if (result != -ESTALE) return result;
  // Descriptors with O_PATH and working folders are not open at the host.
  const auto removed = of.nodes().status_of_removed(node);
  if (!removed) return result;
  status = *removed;
  return 0;
}

void reply_entry(fuse_req_t request, node_number folder, std::string_view name) {
  mounted_prefix& of = prefix_of(request);
  with_path(request, of.nodes().path_of(folder, name), [&](const std::string& path) {
    farcall_io_status status{};
    const node_number before = of.nodes().find(folder, name);
    const std::int64_t result = own_link()->stat(path, 0, &status);
    if (result == -ENOENT) of.nodes().note_missing(folder, name, before);
    if (result < 0) return reply_result(request, result);
    const node_number node = of.nodes().note(folder, name, status);
    const fuse_entry_param entry = entry_of(of, node, status);
    // The system does not know the file if the request was interrupted.
    if (::fuse_reply_entry(request, &entry) != 0) of.nodes().forget(node, 1);
  });
}

const fuse_lowlevel_ops& operations() noexcept {
  static const fuse_lowlevel_ops all = [] {
    fuse_lowlevel_ops made{};
    add_name_operations(made);
    add_file_operations(made);
    add_folder_operations(made);
    add_lock_operations(made);
    return made;
  }();
  return all;
}

} // namespace farcall::mount
