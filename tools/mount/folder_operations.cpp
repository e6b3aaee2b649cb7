// SPDX-License-Identifier: Apache-2.0
#include "replies.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>

/// Requests of the system that list folders.
namespace farcall::mount {
namespace {

/// Number of bytes of entries that one request to the host asks for.
constexpr std::size_t list_bytes = std::size_t{256} << 10;

/// A folder that the system has open, with entries that the host has listed.
struct open_folder {
  std::uint64_t number;
  node_number node;
  std::mutex mutex;
  std::vector<std::byte> listed;
  std::uint64_t since = 0;   ///< node_table::changes() before the entries were listed
  std::size_t at = 0;        ///< of the next entry in `listed`
  std::int64_t position = 0; ///< of the next entry in the folder
};

open_folder& folder_of(const fuse_file_info& info) noexcept {
  return *reinterpret_cast<open_folder*>(info.fh);
}

/// An entry in the memory of an open_folder.
struct listed_entry {
  farcall_io_entry head;
  std::string name;
  std::size_t bytes; ///< that it takes in the memory
};

/// Returns the next entry, or nothing if it is truncated.
std::optional<listed_entry> entry_at(const open_folder& folder) {
  listed_entry found{};
  const std::byte* const from = folder.listed.data() + folder.at;
  const std::size_t left = folder.listed.size() - folder.at;
  if (left < sizeof found.head) return std::nullopt;
  std::memcpy(&found.head, from, sizeof found.head);
  if (left - sizeof found.head < found.head.bytes) return std::nullopt;
  found.name.assign(reinterpret_cast<const char*>(from + sizeof found.head), found.head.bytes);
  found.bytes = std::min(left, sizeof found.head + (found.head.bytes + 7) / 8 * 8);
  return found;
}

/// Lists further entries, from `position` on. Returns 0 at the end of the folder, and -errno on
/// errors.
std::int64_t list_on(mounted_prefix& of, open_folder& folder, std::int64_t position) {
  folder.since = of.nodes().changes();
  std::byte* const to = own_link()->result_memory();
  const std::int64_t from =
      position == folder.position ? std::int64_t{FARCALL_IO_AT_POSITION} : position;
  const std::int64_t got = own_link()->list_status(folder.number, to, list_bytes, from);
  folder.at = 0;
  folder.position = position;
  folder.listed.clear();
  if (got > 0) folder.listed.assign(to, to + got);
  return got;
}

bool is_dot(const std::string& name) { return name == "." || name == ".."; }

/// Appends an entry to a reply, as readdir() or as readdirplus() wants it. Returns the number of
/// bytes that it takes, which is more than `left` if it did not fit. `since` is the open_folder's.
std::size_t append(fuse_req_t request, node_number folder, const listed_entry& from,
                   std::uint64_t since, bool is_plus, char* to, std::size_t left) {
  mounted_prefix& of = prefix_of(request);
  const farcall_io_status& status = from.head.status;
  if (!is_plus) {
    const struct stat shown = shown_status(of, status);
    return ::fuse_add_direntry(request, to, left, from.name.c_str(), &shown, from.head.next);
  }
  fuse_entry_param entry = entry_of(of, 0, status);
  const std::size_t needed =
      ::fuse_add_direntry_plus(request, nullptr, 0, from.name.c_str(), &entry, from.head.next);
  if (needed > left) return needed;
  // Without a number, the system gets only the name, and looks for the file itself. A file without
  // links is one whose status the host could not get.
  if (!is_dot(from.name) && status.links != 0)
    entry.ino = of.nodes().note_listed(folder, from.name, status, since).value_or(0);
  return ::fuse_add_direntry_plus(request, to, left, from.name.c_str(), &entry, from.head.next);
}

/// Forgets an open folder, and closes it at the host. Returns 0, or -errno.
std::int64_t leave(mounted_prefix& of, const fuse_file_info& info) {
  const std::unique_ptr<open_folder> folder(&folder_of(info));
  of.nodes().note_closed(folder->node, folder->number);
  return own_link()->close(folder->number);
}

void open_folder_at(fuse_req_t request, fuse_ino_t node, fuse_file_info* info) {
  mounted_prefix& of = prefix_of(request);
  with_path(request, of.nodes().path_of(node), [&](const std::string& path) {
    farcall_io_opened_status opened{};
    const std::int64_t result =
        own_link()->open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, opened);
    if (result < 0) return reply_result(request, stale_if_gone(result));
    if (node != root_node && !of.nodes().is_same(node, opened.status)) {
      (void)own_link()->close(opened.opened.file);
      return reply_result(request, -ESTALE);
    }
    info->fh = reinterpret_cast<std::uint64_t>(new open_folder{opened.opened.file, node, {}, {}});
    // Attributes of an open folder are the host's open folder's, because it may lose its name.
    of.nodes().note_open(node, opened.opened.file);
    if (::fuse_reply_open(request, info) != 0) (void)leave(of, *info);
  });
}

/// Fills `reply` with entries from the position `offset` on. Returns the number of bytes that they
/// take, or -errno.
std::int64_t fill(fuse_req_t request, node_number node, std::vector<char>& reply, off_t offset,
                  open_folder& folder, bool is_plus) {
  const std::lock_guard guard(folder.mutex);
  if (offset != folder.position) {
    folder.listed.clear();
    folder.at = 0;
  }
  std::size_t used = 0;
  std::int64_t position = offset;
  for (;;) {
    if (folder.at == folder.listed.size()) {
      const std::int64_t got = list_on(prefix_of(request), folder, position);
      if (got < 0 && used == 0) return got;
      if (got <= 0) break;
    }
    const std::optional<listed_entry> entry = entry_at(folder);
    if (!entry) return -EIO;
    const std::size_t added = append(request, node, *entry, folder.since, is_plus,
                                     reply.data() + used, reply.size() - used);
    if (added > reply.size() - used) break;
    used += added;
    folder.at += entry->bytes;
    position = entry->head.next;
    folder.position = position;
  }
  return static_cast<std::int64_t>(used);
}

void list(fuse_req_t request, node_number node, std::size_t bytes, off_t offset,
          const fuse_file_info& info, bool is_plus) {
  std::vector<char> reply(bytes);
  const std::int64_t used = fill(request, node, reply, offset, folder_of(info), is_plus);
  // Do not use the folder after the reply, because another thread may then close it.
  if (used < 0) return reply_result(request, used);
  (void)::fuse_reply_buf(request, reply.data(), static_cast<std::size_t>(used));
}

void list_names(fuse_req_t request, fuse_ino_t node, std::size_t bytes, off_t offset,
                fuse_file_info* info) {
  list(request, node, bytes, offset, *info, false);
}

void list_files(fuse_req_t request, fuse_ino_t node, std::size_t bytes, off_t offset,
                fuse_file_info* info) {
  list(request, node, bytes, offset, *info, true);
}

void release_folder(fuse_req_t request, fuse_ino_t /*node*/, fuse_file_info* info) {
  reply_result(request, leave(prefix_of(request), *info));
}

void synchronize_folder(fuse_req_t request, fuse_ino_t /*node*/, int data_only,
                        fuse_file_info* info) {
  reply_result(request, own_link()->fsync(folder_of(*info).number, data_only));
}

} // namespace

void add_folder_operations(fuse_lowlevel_ops& to) noexcept {
  to.opendir = open_folder_at;
  to.readdir = list_names;
  to.readdirplus = list_files;
  to.releasedir = release_folder;
  to.fsyncdir = synchronize_folder;
}

} // namespace farcall::mount
