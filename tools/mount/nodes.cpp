// SPDX-License-Identifier: Apache-2.0
#include "nodes.hpp"

#include <algorithm>
#include <ranges>

#include <sys/stat.h>

namespace farcall::mount {
namespace {

/// Maximum number of folders in a path. Longer paths exceed the limit of the target's server.
constexpr std::size_t max_depth = 4096;

/// Maximum number of names whose last change is known.
constexpr std::size_t max_changed = 10'000;

} // namespace

node_table::node_table(std::string path, const farcall_io_status& root)
    : root_path_(std::move(path)) {
  node& made = nodes_[root_node];
  made.device = root.device;
  made.inode = root.inode;
  made.type = root.mode & S_IFMT;
  made.lookups = 1; // the system never forgets it
  by_identity_[{root.device, root.inode}] = root_node;
}

std::optional<std::string> node_table::path_locked(node_number number) const {
  std::vector<std::string_view> words;
  while (number != root_node) {
    const auto at = nodes_.find(number);
    if (at == nodes_.end() || at->second.names.empty() || words.size() == max_depth)
      return std::nullopt;
    const name_key& key = at->second.names.back();
    words.push_back(key.second);
    number = key.first;
  }
  std::string path = root_path_;
  for (const std::string_view word : std::views::reverse(words))
    path.append("/").append(word);
  return path;
}

std::optional<std::string> node_table::path_of(node_number number) {
  const std::lock_guard guard(mutex_);
  return path_locked(number);
}

std::optional<std::string> node_table::path_of(node_number folder, std::string_view name) {
  const std::lock_guard guard(mutex_);
  std::optional<std::string> path = path_locked(folder);
  if (path) path->append("/").append(name);
  return path;
}

/// Returns the node of a file, and makes it if there is none.
node_number node_table::find_or_add(const farcall_io_status& status) {
  const identity key{status.device, status.inode};
  const std::uint64_t type = status.mode & S_IFMT;
  const auto at = by_identity_.find(key);
  // A different type means that the host has used the inode for a new file.
  if (at != by_identity_.end() && nodes_.at(at->second).type == type) {
    nodes_.at(at->second).last = status;
    return at->second;
  }
  const node_number number = ++last_;
  node& made = nodes_[number];
  made.last = status;
  made.device = status.device;
  made.inode = status.inode;
  made.type = type;
  by_identity_[key] = number;
  return number;
}

/// Counts that the system has learned a file, and its name.
node_number node_table::note_locked(name_key key, const farcall_io_status& status) {
  const node_number number = find_or_add(status);
  ++nodes_.at(number).lookups;
  add_name(number, std::move(key));
  return number;
}

node_number node_table::note(node_number folder, std::string_view name,
                             const farcall_io_status& status) {
  const std::lock_guard guard(mutex_);
  return note_locked({folder, std::string(name)}, status);
}

std::optional<node_number> node_table::note_listed(node_number folder, std::string_view name,
                                                   const farcall_io_status& status,
                                                   std::uint64_t since) {
  const std::lock_guard guard(mutex_);
  name_key key{folder, std::string(name)};
  const auto at = changed_.find(key);
  if (since < forgotten_ || (at != changed_.end() && at->second > since)) return std::nullopt;
  return note_locked(std::move(key), status);
}

std::uint64_t node_table::changes() {
  const std::lock_guard guard(mutex_);
  return changes_;
}

void node_table::note_change(const name_key& key) {
  if (changed_.size() == max_changed) {
    changed_.clear();
    forgotten_ = changes_ + 1;
  }
  changed_[key] = ++changes_;
}

node_number node_table::note_unnamed(const farcall_io_status& status) {
  const std::lock_guard guard(mutex_);
  const node_number number = find_or_add(status);
  ++nodes_.at(number).lookups;
  return number;
}

/// True if the path of a folder leads through `number`, or is its path.
bool node_table::is_in(node_number number, node_number folder) const {
  for (std::size_t depth = 0; folder != number; ++depth) {
    const auto at = nodes_.find(folder);
    if (at == nodes_.end() || at->second.names.empty() || depth == max_depth) return false;
    folder = at->second.names.back().first;
  }
  return true;
}

/// Makes a name the newest one of a node, and takes it away from another node that had it.
void node_table::add_name(node_number number, name_key key) {
  if (number == root_node) return;
  std::vector<name_key>& names = nodes_.at(number).names;
  if (!names.empty() && names.back() == key) return;
  const bool is_folder = nodes_.at(number).type == S_IFDIR;
  // A folder cannot be in itself: the host has moved one of the folders in between.
  if (is_folder && is_in(number, key.first)) return;
  ++nodes_.at(key.first).children;
  const auto before = by_name_.find(key);
  if (before != by_name_.end()) remove_name(key);
  if (is_folder && !names.empty()) {
    const name_key old = names.back();
    remove_name(old);
  }
  names.push_back(key);
  nodes_.at(number).is_removed = false;
  by_name_.emplace(std::move(key), number);
}

void node_table::remove_name(const name_key& key) {
  const auto at = by_name_.find(key);
  if (at == by_name_.end()) return;
  const node_number number = at->second;
  node& named = nodes_.at(number);
  const node_number folder = key.first;
  std::erase(named.names, key);
  by_name_.erase(at);
  --nodes_.at(folder).children;
  remove_if_unused(folder);
  remove_if_unused(number);
}

void node_table::forget(node_number number, std::uint64_t times) {
  const std::lock_guard guard(mutex_);
  const auto at = nodes_.find(number);
  if (at == nodes_.end() || number == root_node) return;
  at->second.lookups -= std::min(at->second.lookups, times);
  remove_if_unused(number);
}

/// Makes a later file with the node's device and inode another node.
void node_table::leave_identity(node_number number) {
  const node& old = nodes_.at(number);
  const auto same = by_identity_.find({old.device, old.inode});
  if (same != by_identity_.end() && same->second == number) by_identity_.erase(same);
}

void node_table::remove_if_unused(node_number number) {
  const auto at = nodes_.find(number);
  if (at == nodes_.end() || number == root_node) return;
  node& unused = at->second;
  if (unused.lookups > 0 || unused.children > 0) return;
  leave_identity(number);
  const std::vector<name_key> names = std::move(unused.names);
  nodes_.erase(at);
  for (const name_key& key : names) {
    by_name_.erase(key);
    --nodes_.at(key.first).children;
    remove_if_unused(key.first);
  }
}

node_number node_table::number_of(const name_key& key) const {
  const auto at = by_name_.find(key);
  return at != by_name_.end() ? at->second : node_number{0};
}

node_number node_table::find(node_number folder, std::string_view name) {
  const std::lock_guard guard(mutex_);
  return number_of({folder, std::string(name)});
}

/// Removes a name that the host has not any more.
void node_table::remove_known(const name_key& key) {
  note_change(key);
  const node_number number = number_of(key);
  if (number == 0) return;
  const node& named = nodes_.at(number);
  // Without a name left, the host may use the inode for a new file.
  if (named.names.size() == 1 && named.files.empty()) leave_identity(number);
  remove_name(key);
}

/// Removes a name that a program of this mount has removed.
void node_table::note_removed_name(const name_key& key) {
  const auto at = nodes_.find(number_of(key));
  if (at != nodes_.end()) {
    node& named = at->second;
    named.is_removed = named.names.size() == 1;
    named.last.links = named.type == S_IFDIR || named.last.links == 0 ? 0 : named.last.links - 1;
  }
  remove_known(key);
}

void node_table::note_removed(node_number folder, std::string_view name) {
  const std::lock_guard guard(mutex_);
  note_removed_name({folder, std::string(name)});
}

void node_table::note_missing(node_number folder, std::string_view name, node_number before) {
  const std::lock_guard guard(mutex_);
  const name_key key{folder, std::string(name)};
  if (before != 0 && number_of(key) == before) remove_known(key);
}

void node_table::note_renamed(node_number folder, std::string_view name, node_number to_folder,
                              std::string_view to_name, bool exchanges) {
  const std::lock_guard guard(mutex_);
  name_key from{folder, std::string(name)};
  name_key to{to_folder, std::string(to_name)};
  note_change(from);
  note_change(to);
  const node_number moved = number_of(from);
  const node_number replaced = number_of(to);
  // Two names of one file: the host changes nothing.
  if (moved == replaced) return;
  // Keep the folders, which may have no other names, until the new names are there.
  const auto keep = [&](node_number each, int by) {
    const auto at = nodes_.find(each);
    if (at != nodes_.end()) at->second.lookups += static_cast<std::uint64_t>(by);
  };
  for (const node_number each : {folder, to_folder, moved, replaced})
    keep(each, 1);
  remove_name(from);
  if (exchanges) {
    remove_name(to);
  } else {
    note_removed_name(to);
  }
  if (moved != 0) add_name(moved, to);
  if (exchanges && replaced != 0) add_name(replaced, from);
  for (const node_number each : {folder, to_folder, moved, replaced}) {
    keep(each, -1);
    remove_if_unused(each);
  }
}

void node_table::note_status(node_number number, const farcall_io_status& status) {
  const std::lock_guard guard(mutex_);
  const auto at = nodes_.find(number);
  if (at != nodes_.end()) at->second.last = status;
}

std::optional<farcall_io_status> node_table::status_of_removed(node_number number) {
  const std::lock_guard guard(mutex_);
  const auto at = nodes_.find(number);
  if (at == nodes_.end() || !at->second.is_removed) return std::nullopt;
  return at->second.last;
}

bool node_table::is_same(node_number number, const farcall_io_status& status) {
  const std::lock_guard guard(mutex_);
  const auto at = nodes_.find(number);
  return at != nodes_.end() && at->second.device == status.device &&
         at->second.inode == status.inode && at->second.type == (status.mode & S_IFMT);
}

void node_table::note_open(node_number number, std::uint64_t file) {
  const std::lock_guard guard(mutex_);
  const auto at = nodes_.find(number);
  if (at != nodes_.end()) at->second.files.push_back(file);
}

void node_table::note_closed(node_number number, std::uint64_t file) {
  const std::lock_guard guard(mutex_);
  const auto at = nodes_.find(number);
  if (at == nodes_.end()) return;
  std::erase(at->second.files, file);
  if (at->second.files.empty() && at->second.names.empty()) leave_identity(number);
}

std::optional<std::uint64_t> node_table::open_file(node_number number) {
  const std::lock_guard guard(mutex_);
  const auto at = nodes_.find(number);
  if (at == nodes_.end() || at->second.files.empty()) return std::nullopt;
  return at->second.files.back();
}

void node_table::note_lock(node_number number, std::uint64_t owner) {
  const std::lock_guard guard(mutex_);
  const auto at = nodes_.find(number);
  if (at != nodes_.end()) at->second.lock_owners.insert(owner);
}

bool node_table::forget_lock(node_number number, std::uint64_t owner) {
  const std::lock_guard guard(mutex_);
  const auto at = nodes_.find(number);
  return at != nodes_.end() && at->second.lock_owners.erase(owner) > 0;
}

bool node_table::is_unchanged(node_number number, const farcall_io_status& status) {
  const std::lock_guard guard(mutex_);
  const auto at = nodes_.find(number);
  if (at == nodes_.end()) return false;
  farcall_io_status& seen = at->second.seen;
  const bool is = seen.size == status.size && seen.modified == status.modified &&
                  seen.modified_ns == status.modified_ns && seen.changed == status.changed &&
                  seen.changed_ns == status.changed_ns;
  seen = status;
  return is;
}

} // namespace farcall::mount
