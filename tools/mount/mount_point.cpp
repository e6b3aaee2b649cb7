#include "mount_point.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/unique_fd.hpp>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>

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

/// Returns a copy of the mounts at a path, which is nowhere mounted.
unique_fd clone_of(const std::string& path) {
  unique_fd made(static_cast<int>(
      ::syscall(SYS_open_tree, AT_FDCWD, path.c_str(),
                OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW)));
  if (!made) fail("the system cannot mount " + path + " at a second place");
  return made;
}

/// Makes the same entry in another folder: a link, or an empty file or folder with the first one
/// mounted on it.
void copy_entry(const fs::directory_entry& from, const std::string& to, const unique_fd& mounts) {
  if (from.is_symlink()) {
    fs::create_symlink(fs::read_symlink(from.path()), to);
    return;
  }
  if (from.is_directory()) {
    fs::create_directory(to);
  } else {
    const unique_fd file(::open(to.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
  if (::syscall(SYS_move_mount, mounts.get(), "", AT_FDCWD, to.c_str(), MOVE_MOUNT_F_EMPTY_PATH) !=
      0)
    fail("the system cannot mount " + to);
}

/// Puts a folder in memory over a folder. It has the entries that the folder has at this time.
void cover(const std::string& folder) {
  struct stat s{};
  if (::stat(folder.c_str(), &s) != 0) fail(folder);
  std::map<std::string, unique_fd> mounts;
  std::map<std::string, fs::directory_entry> entries;
  for (const fs::directory_entry& each : fs::directory_iterator(folder)) {
    const std::string name = each.path().filename();
    entries.emplace(name, each);
    if (!each.is_symlink()) mounts.emplace(name, clone_of(each.path()));
  }
  const bool is_root = folder == "/";
  // The root folder cannot be covered: its process would still see the old one. Mount the new one
  // anywhere, and make it the root.
  const std::string place = is_root ? "/proc" : folder;
  const std::string mode = "mode=" + std::to_string((s.st_mode >> 6) & 7) +
                           std::to_string((s.st_mode >> 3) & 7) + std::to_string(s.st_mode & 7);
  const unique_fd old(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (::mount("farcall", place.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, mode.c_str()) != 0)
    fail("the system cannot mount memory at " + place);
  for (const auto& [name, entry] : entries) {
    const fs::directory_entry at(
        is_root ? entry.path() : fs::path("/proc/self/fd/" + std::to_string(old.get())) / name);
    const auto mounted = mounts.find(name);
    static const unique_fd none;
    copy_entry(at, (fs::path(place) / name).string(),
               mounted != mounts.end() ? mounted->second : none);
  }
  if (!is_root) return;
  if (::chdir(place.c_str()) != 0 || ::syscall(SYS_pivot_root, ".", ".") != 0 ||
      ::umount2(".", MNT_DETACH) != 0 || ::chdir("/") != 0)
    fail("the system cannot change the root folder");
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
    cover(above.string());
    fs::create_directories(is_folder ? fs::path(path) : fs::path(path).parent_path());
    if (!is_folder)
      const unique_fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  } catch (const fs::filesystem_error& e) {
    throw error(path + " cannot be made a place for a mount: " + e.what());
  }
}

} // namespace farcall::mount
