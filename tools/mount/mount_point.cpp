// SPDX-License-Identifier: Apache-2.0
#include "mount_point.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/unique_fd.hpp>

#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall::mount {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& action) {
  throw error(action + ": " + reason_text(errno));
}

void write_text(const char* path, const std::string& text) {
  const unique_fd file(::open(path, O_WRONLY | O_CLOEXEC));
  if (!file || ::write(file.get(), text.data(), text.size()) < 0) fail(path);
}

/// Folders that folders in memory have been put over, and the devices of those in memory.
struct covers {
  std::vector<std::string> folders;
  std::set<dev_t> devices;
};

covers& own_covers() {
  static covers all;
  return all;
}

/// Entry of a folder, with what the folder tells of it. The entry itself may be inaccessible.
struct folder_entry {
  std::string name;
  bool is_link;
  bool is_folder;
};

/// Returns a copy of the mounts at an entry of a folder, which is nowhere mounted, or nothing if
/// there is no such entry any more.
unique_fd clone_of(int folder, const std::string& name) {
  unique_fd made(static_cast<int>(
      ::syscall(SYS_open_tree, folder, name.c_str(),
                OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW)));
  if (!made && errno != ENOENT) fail("the system cannot mount " + name + " at a second place");
  return made;
}

void copy_link(int from, const std::string& name, const std::string& to) {
  std::string text(PATH_MAX, '\0');
  const ssize_t got = ::readlinkat(from, name.c_str(), text.data(), text.size());
  if (got < 0 && errno == ENOENT) return;
  if (got < 0) fail(name);
  text.resize(static_cast<std::size_t>(got));
  fs::create_symlink(text, to);
}

/// Makes an empty file or folder with mounts on it.
void place_mounts(const unique_fd& mounts, bool is_folder, const std::string& to) {
  if (is_folder) {
    fs::create_directory(to);
  } else {
    const unique_fd file(::open(to.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
  if (::syscall(SYS_move_mount, mounts.get(), "", AT_FDCWD, to.c_str(), MOVE_MOUNT_F_EMPTY_PATH) !=
      0)
    fail("the system cannot mount " + to);
}

/// Mounts a folder in memory with the mode and owner of another folder.
void mount_memory(const std::string& place, const struct stat& like) {
  std::array<char, 16> mode{};
  (void)std::snprintf(mode.data(), mode.size(), "mode=%04o", like.st_mode & 07777U);
  const std::string owner =
      ",uid=" + std::to_string(like.st_uid) + ",gid=" + std::to_string(like.st_gid);
  const auto mount = [&](const std::string& options) {
    return ::mount("farcall", place.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
  };
  // An ordinary user's namespace may lack the owner.
  if (!mount(mode.data() + owner) && !mount(mode.data()))
    fail("the system cannot mount memory at " + place);
}

/// Puts a folder in memory over a folder. It has the entries that the folder has at this time.
void cover(const std::string& folder) {
  const unique_fd old(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat s{};
  if (!old || ::fstat(old.get(), &s) != 0) fail(folder);
  std::vector<folder_entry> entries;
  for (const fs::directory_entry& each : fs::directory_iterator(folder))
    entries.push_back(
        {each.path().filename(), each.is_symlink(), !each.is_symlink() && each.is_directory()});
  const bool is_root = folder == "/";
  // The root folder cannot be covered: its process would still see the old one. Mount the new one
  // anywhere, and make it the root.
  const std::string place = is_root ? "/proc" : folder;
  const unique_fd place_before = is_root ? clone_of(old.get(), "proc") : unique_fd();
  mount_memory(place, s);
  if (!is_root) own_covers().folders.push_back(folder);
  // One after the other, because a folder may have more entries than a process may have open.
  for (const auto& [name, is_link, is_folder] : entries) {
    const std::string to = (fs::path(place) / name).string();
    if (is_link) {
      copy_link(old.get(), name, to);
    } else if (is_root && name == "proc") {
      place_mounts(place_before, true, to);
    } else if (const unique_fd mounts = clone_of(old.get(), name)) {
      place_mounts(mounts, is_folder, to);
    }
  }
  struct stat made{};
  if (::stat(place.c_str(), &made) == 0) own_covers().devices.insert(made.st_dev);
  if (!is_root) return;
  if (::chdir(place.c_str()) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0 ||
      ::umount2(".", MNT_DETACH) != 0 || ::chdir("/") != 0)
    fail("the system cannot change the root folder");
}

/// True if a folder is in memory already.
bool is_in_memory(const std::string& folder) {
  struct stat s{};
  return ::stat(folder.c_str(), &s) == 0 && own_covers().devices.contains(s.st_dev);
}

} // namespace

void enter_own_namespace() {
  if (::unshare(CLONE_NEWNS) != 0) {
    const auto user = std::to_string(::geteuid());
    const auto group = std::to_string(::getegid());
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
      fail("the system gives this user no namespace of users");
    write_text("/proc/self/setgroups", "deny");
    write_text("/proc/self/uid_map", user + " " + user + " 1");
    write_text("/proc/self/gid_map", group + " " + group + " 1");
  }
  // Mounts of others still come in, but none of this namespace go out.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
    fail("the mounts cannot be made private");
}

void make_mount_point(const std::string& path, bool is_folder) {
  try {
    struct stat s{};
    if (::stat(path.c_str(), &s) == 0) {
      if (S_ISDIR(s.st_mode) == is_folder) return;
      throw error(path + (is_folder ? " is a file on this machine, and a folder at the host"
                                    : " is a folder on this machine, and a file at the host"));
    }
    fs::path above = fs::path(path).parent_path();
    while (!fs::is_directory(above))
      above = above.parent_path();
    if (!is_in_memory(above.string())) cover(above.string());
    fs::create_directories(is_folder ? fs::path(path) : fs::path(path).parent_path());
    if (!is_folder)
      const unique_fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  } catch (const fs::filesystem_error& e) {
    throw error(path + " cannot be made a place for a mount: " + e.what());
  }
}

void remove_covers() noexcept {
  std::vector<std::string>& folders = own_covers().folders;
  for (; !folders.empty(); folders.pop_back())
    (void)::umount2(folders.back().c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  own_covers().devices.clear();
}

} // namespace farcall::mount
