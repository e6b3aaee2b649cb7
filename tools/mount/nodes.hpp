// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/files/io_operations.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace farcall::mount {

/// Number by which the system names a file of a mount.
using node_number = std::uint64_t;
inline constexpr node_number root_node = 1;

/// The files of one mount that the system knows, with the names by which the host finds them. A
/// node is one file of the host, by its device and inode. It lives until the system has forgotten
/// it. Any thread may call it.
class node_table {
 public:
  /// `path` is the path of the mounted file or folder.
  node_table(std::string path, const farcall_io_status& root);

  /// Returns the path of a file, or nothing if it has no name any more.
  [[nodiscard]] std::optional<std::string> path_of(node_number node);
  [[nodiscard]] std::optional<std::string> path_of(node_number folder, std::string_view name);

  /// Notes that the system has learned the name of a file, and counts that. Returns the file's
  /// number.
  [[nodiscard]] node_number note(node_number folder, std::string_view name,
                                 const farcall_io_status& status);
  /// Like note(), for a file that a folder had when changes() returned `since`. Returns nothing if
  /// the name was removed or renamed since then.
  [[nodiscard]] std::optional<node_number> note_listed(node_number folder, std::string_view name,
                                                       const farcall_io_status& status,
                                                       std::uint64_t since);
  /// Returns the number of removals and renames so far.
  [[nodiscard]] std::uint64_t changes();
  /// Like note(), for a file without a name.
  [[nodiscard]] node_number note_unnamed(const farcall_io_status& status);
  /// Notes that the system has forgotten a file `times` times.
  void forget(node_number node, std::uint64_t times);

  void note_removed(node_number folder, std::string_view name);
  /// Returns the file that is known by a name, or 0.
  [[nodiscard]] node_number find(node_number folder, std::string_view name);
  /// Notes that the host has no file with this name. Does nothing if another file than `before`,
  /// the result of find(), has got the name in the meantime.
  void note_missing(node_number folder, std::string_view name, node_number before);
  void note_renamed(node_number folder, std::string_view name, node_number to_folder,
                    std::string_view to_name, bool exchanges);

  /// Notes the status of a file, as the host has told it.
  void note_status(node_number node, const farcall_io_status& status);
  /// Returns the last status of a file whose last name was removed by a program of this mount, or
  /// nothing.
  [[nodiscard]] std::optional<farcall_io_status> status_of_removed(node_number node);

  /// True if a status is the status of this file.
  [[nodiscard]] bool is_same(node_number node, const farcall_io_status& status);

  /// Adds an open file of the host. Later calls of open_file() may return it.
  void note_open(node_number node, std::uint64_t file);
  void note_closed(node_number node, std::uint64_t file);
  /// Returns an open file of the node, or nothing.
  [[nodiscard]] std::optional<std::uint64_t> open_file(node_number node);

  /// Notes that an owner has a lock on the file.
  void note_lock(node_number node, std::uint64_t owner);
  /// Forgets the locks of an owner. Returns false if it has none.
  [[nodiscard]] bool forget_lock(node_number node, std::uint64_t owner);

  /// Notes the status of a file that is being opened. Returns true if the file has not changed
  /// since the last time, so that the system may use the contents that it has kept.
  [[nodiscard]] bool is_unchanged(node_number node, const farcall_io_status& status);

 private:
  using name_key = std::pair<node_number, std::string>;
  struct node {
    std::uint64_t device = 0, inode = 0, type = 0;
    std::uint64_t lookups = 0;
    std::size_t children = 0;    ///< names in this folder
    std::vector<name_key> names; ///< the newest one last; a folder has one at most
    std::vector<std::uint64_t> files;
    std::set<std::uint64_t> lock_owners;
    farcall_io_status seen{}; ///< at the last open
    farcall_io_status last{}; ///< as far as it is known
    bool is_removed = false;  ///< a program of this mount has removed the last name
  };
  using identity = std::pair<std::uint64_t, std::uint64_t>;

  [[nodiscard]] node_number find_or_add(const farcall_io_status& status);
  [[nodiscard]] node_number note_locked(name_key key, const farcall_io_status& status);
  [[nodiscard]] std::optional<std::string> path_locked(node_number number) const;
  [[nodiscard]] bool is_in(node_number number, node_number folder) const;
  void add_name(node_number number, name_key key);
  void note_change(const name_key& key);
  [[nodiscard]] node_number number_of(const name_key& key) const;
  void remove_known(const name_key& key);
  void note_removed_name(const name_key& key);
  void remove_name(const name_key& key);
  void leave_identity(node_number number);
  void remove_if_unused(node_number number);

  std::mutex mutex_;
  std::string root_path_;
  node_number last_ = root_node;
  std::unordered_map<node_number, node> nodes_;
  std::map<identity, node_number> by_identity_;
  std::map<name_key, node_number> by_name_;
  std::uint64_t changes_ = 0;
  /// Value of changes_ after the last removal or rename of a name.
  std::map<name_key, std::uint64_t> changed_;
  std::uint64_t forgotten_ = 0; ///< changes_ when changed_ was last emptied
};

} // namespace farcall::mount
