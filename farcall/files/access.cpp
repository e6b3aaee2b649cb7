// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/system_call.hpp>
#include <farcall/files/access.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall::files {
namespace {

/// Maximum number of bytes that a list of prefixes may have in the form that text_of() gives it,
/// because the list must fit into the message by which the targets get it.
constexpr std::size_t max_list = 4000;

/// Throws setting_error if a list of this many bytes is too long.
void require_length(std::size_t bytes, const std::string& what) {
  if (bytes <= max_list) return;
  throw setting_error(what + " has " + std::to_string(bytes) +
                      " bytes as a list of absolute paths with :ro or :rw, and may have " +
                      std::to_string(max_list) + "; name fewer folders, or folders further up");
}

bool ends_with_slash(std::string_view path) { return !path.empty() && path.back() == '/'; }

/// True if `path` is `folder` itself, or a path beneath it. Both paths must be normalised.
bool is_beneath(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

/// Returns the next word of a path, where slashes separate words. The search begins at offset `at`,
/// which is then moved to the word's end. Returns an empty text if there is no further word.
std::string_view next_word(std::string_view path, std::size_t& at) {
  while (at < path.size() && path[at] == '/')
    ++at;
  const std::size_t begin = at;
  at = std::min(path.find('/', at), path.size());
  return path.substr(begin, at - begin);
}

int open_beneath(int folder, std::string_view rest, int flags, mode_t mode,
                 std::uint64_t resolve = 0) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  // Leave out the setuid and setgid bits for new files, because programs with these bits run with
  // the rights of the file's owner, who is the host's user.
  if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) how.mode = mode & 01777;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve;
  const std::string path(rest.empty() ? "." : rest);
  // Maximum number of tries. An open fails with EAGAIN if a concurrent rename has disturbed the
  // lookup (RESOLVE_BENEATH), or if the file has a lease, which may last longer.
  constexpr int max_tries = 100;
  for (int tries = 1;; ++tries) {
    const long fd = ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how);
    if (fd >= 0) return static_cast<int>(fd);
    if (errno == EINTR || (errno == EAGAIN && tries < max_tries)) continue;
    return errno == EXDEV ? -EACCES : -errno;
  }
}

/// Returns 0 if an open file is of a type that targets may use: regular file, folder or symbolic
/// link. Returns -errno otherwise.
int check_kind(int fd) {
  struct stat s{};
  if (::fstat(fd, &s) != 0) return -errno;
  // Admit symbolic links. If an open() must not follow a link, the open() fails later with the
  // right error.
  return S_ISREG(s.st_mode) || S_ISDIR(s.st_mode) || S_ISLNK(s.st_mode) ? 0 : -EACCES;
}

/// True if the open file is of the given type, for instance S_IFREG.
bool has_type(int fd, mode_t type) {
  struct stat s{};
  return ::fstat(fd, &s) == 0 && (s.st_mode & S_IFMT) == type;
}

/// Returns the system's name for what a descriptor refers to. Returns an empty text if the system
/// does not tell.
std::string name_of(int fd) {
  std::string name(PATH_MAX, '\0');
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t bytes = ::readlink(link.c_str(), name.data(), name.size());
  name.resize(bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
  return name;
}

bool changes(int flags) {
  return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0 ||
         (flags & O_TMPFILE) == O_TMPFILE;
}

} // namespace

std::vector<prefix> parse_prefixes(std::string_view text, const std::string& what) {
  std::vector<prefix> found;
  require_length(text.size(), what);
  for (const std::string& word : split(text, ',')) {
    prefix p{word, true};
    if (word.ends_with(":ro") || word.ends_with(":rw")) {
      p.is_writable = word.ends_with(":rw");
      p.path.resize(word.size() - 3);
    }
    if (p.path.empty()) {
      throw setting_error(what + " is \"" + std::string(text) +
                          "\", with an empty path; give paths as in /data:ro,/home/me");
    }
    p.path = std::filesystem::absolute(p.path).lexically_normal().string();
    while (p.path.size() > 1 && ends_with_slash(p.path))
      p.path.pop_back();
    if (p.path == "/") {
      throw setting_error(what + " names /, the whole system; name the folders that are needed");
    }
    found.push_back(std::move(p));
  }
  require_length(text_of(found).size(), what);
  for (const prefix& outer : found) {
    for (const prefix& inner : found) {
      if (&inner == &outer || !is_beneath(inner.path, outer.path)) continue;
      if (inner.path == outer.path)
        throw setting_error(what + " names " + inner.path + " twice; name it once");
      if (outer.is_writable && !inner.is_writable) {
        throw setting_error(what + ": " + inner.path + " cannot be read-only beneath " +
                            outer.path +
                            ", which is writable: a link there would lead to it; "
                            "make the outer one read-only, or name others");
      }
    }
  }
  return found;
}

std::string text_of(std::span<const prefix> prefixes) {
  std::string text;
  for (const prefix& p : prefixes)
    text += (text.empty() ? "" : ",") + p.path + (p.is_writable ? ":rw" : ":ro");
  return text;
}

std::optional<beneath> find_prefix(std::span<const prefix> prefixes, std::string_view path) {
  if (path.empty() || path.front() != '/') return std::nullopt;
  std::optional<beneath> found;
  std::string so_far;
  std::size_t at = 0;
  for (;;) {
    const std::string_view word = next_word(path, at);
    if (word.empty()) return found;
    if (word == ".") continue;
    if (word == "..") {
      if (found) return found;
      so_far.resize(so_far.rfind('/') == std::string::npos ? 0 : so_far.rfind('/'));
      continue;
    }
    so_far += '/';
    so_far += word;
    for (const prefix& p : prefixes) {
      if (p.path != so_far) continue;
      std::string_view rest = path.substr(at);
      while (rest.starts_with('/'))
        rest.remove_prefix(1);
      found = beneath{&p, rest};
    }
  }
}

access_list::access_list(std::vector<prefix> prefixes) : prefixes_(std::move(prefixes)) {
  for (const prefix& p : prefixes_) {
    root r;
    r.name = unique_fd(::open(p.path.c_str(), O_PATH | O_CLOEXEC));
    if (!r.name) {
      const bool has_odd_end =
          p.path.find(':') != std::string::npos || p.path.find(' ') != std::string::npos;
      throw setting_error("host_files names \"" + p.path +
                          "\", which cannot be opened: " + reason_text(errno) +
                          (has_odd_end ? " (paths are separated by commas, without spaces; only "
                                         ":ro or :rw may stand behind one)"
                                       : ""));
    }
    struct stat s{};
    const bool is_known = ::fstat(r.name.get(), &s) == 0;
    r.is_folder = is_known && S_ISDIR(s.st_mode);
    if (is_known && S_ISREG(s.st_mode)) {
      const std::string path = name_of(r.name.get());
      const std::size_t slash = path.rfind('/');
      struct stat again{};
      if (slash != std::string::npos && ::stat(path.c_str(), &again) == 0 &&
          again.st_dev == s.st_dev && again.st_ino == s.st_ino) {
        r.folder = unique_fd(::open(path.substr(0, slash + 1).c_str(), O_PATH | O_CLOEXEC));
        r.file_name = path.substr(slash + 1);
      }
    }
    if (r.is_folder) {
      const int itself = open_beneath(r.name.get(), ".", O_PATH, 0);
      if (is_call_unavailable(-itself)) {
        throw error("host_files needs the system call openat2 (Linux 5.6), which this system does "
                    "not have, or refuses");
      }
      if (itself >= 0) ::close(itself);
    }
    roots_.push_back(std::move(r));
  }
  check_real_paths();
}

void access_list::check_real_paths() const {
  for (const prefix& outer : prefixes_) {
    const std::string above = name_of(root_of(outer).name.get());
    if (!outer.is_writable || above.empty()) continue;
    for (const prefix& inner : prefixes_) {
      if (inner.is_writable || !is_beneath(name_of(root_of(inner).name.get()), above)) continue;
      throw setting_error("host_files: " + inner.path +
                          " cannot be read-only, because it leads to " + above +
                          ", which targets may write to as " + outer.path +
                          "; make both read-only or both writable");
    }
  }
}

int access_list::locate(std::string_view path, beneath& found) const {
  // Check the length first, because the search takes time for each word.
  if (path.size() >= PATH_MAX) return -ENAMETOOLONG;
  const auto where = find_prefix(prefixes_, path);
  if (!where) return -EACCES;
  found = *where;
  return 0;
}

/// Opens a descriptor that only names the file of a prefix. Returns -EACCES if the host has
/// replaced a regular file by anything else.
int access_list::open_file_name(const root& from) {
  if (!from.folder) {
    const int fd = ::fcntl(from.name.get(), F_DUPFD_CLOEXEC, 0);
    return fd >= 0 ? fd : -errno;
  }
  unique_fd name(open_beneath(from.folder.get(), from.file_name, O_PATH, 0, RESOLVE_NO_SYMLINKS));
  if (name && !has_type(name.get(), S_IFREG)) return -EACCES;
  return name ? name.release() : name.get();
}

/// Opens the file of a prefix, as open() does.
int access_list::open_file(const root& from, int flags, mode_t mode) {
  if (!from.folder) {
    const bool waits = (flags & O_NONBLOCK) == 0;
    const std::string itself = "/proc/self/fd/" + std::to_string(from.name.get());
    const int fd = ::open(itself.c_str(), (flags & ~(O_CREAT | O_EXCL | O_NOFOLLOW)) | O_CLOEXEC |
                                              O_NOCTTY | O_NONBLOCK);
    if (fd >= 0) return fd;
    // The error is ENXIO if a pipe is opened for writing that no process has open for reading.
    return waits && errno == ENXIO && has_type(from.name.get(), S_IFIFO) ? -EAGAIN : -errno;
  }
  // Check the type before and after the open, as open() does for files in folders.
  const unique_fd name(open_file_name(from));
  if (!name && name.get() != -ENOENT) return name.get();
  unique_fd opened(open_beneath(from.folder.get(), from.file_name, flags | O_NOCTTY | O_NONBLOCK,
                                mode, RESOLVE_NO_SYMLINKS));
  if (opened && !has_type(opened.get(), S_IFREG)) return -EACCES;
  return opened ? opened.release() : opened.get();
}

bool access_list::is_writable(std::string_view path) const {
  beneath where{};
  return locate(path, where) == 0 && where.of->is_writable;
}

int access_list::open(std::string_view path, int flags, mode_t mode) const {
  beneath where{};
  if (const int why_not = locate(path, where); why_not < 0) return why_not;
  if (!where.of->is_writable) {
    if (changes(flags)) return -EACCES;
    // As the kernel does for a file system that is read-only, look for the file first.
    if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0)
      return unique_fd(open_name(path, false)) ? -EEXIST : -EACCES;
    // Leave out these flags, so that the open never creates a file beneath a read-only prefix, but
    // can still open an existing one.
    flags &= ~(O_CREAT | O_EXCL);
  }
  const root& from = root_of(*where.of);
  if (!from.is_folder) {
    if (!where.rest.empty() || ends_with_slash(path)) return -ENOTDIR;
    if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0 && !from.folder) return -EEXIST;
    return open_file(from, flags, mode);
  }
  // First open only the name (O_PATH) and check the type, because opening a device or a pipe may
  // have side effects.
  const unique_fd name(open_beneath(from.name.get(), where.rest, O_PATH | (flags & O_NOFOLLOW), 0));
  if (name) {
    if (const int why_not = check_kind(name.get()); why_not < 0) return why_not;
  }
  const int opened = open_beneath(from.name.get(), where.rest, flags | O_NOCTTY | O_NONBLOCK, mode);
  if (opened < 0) return !where.of->is_writable && opened == -EROFS ? -EACCES : opened;
  // Check the type again, because since the first check another process may have replaced the file
  // by another one of the same name.
  if (const int why_not = check_kind(opened); why_not < 0) {
    ::close(opened);
    return why_not;
  }
  return opened;
}

int access_list::open_name(std::string_view path, bool follows_link) const {
  beneath where{};
  if (const int why_not = locate(path, where); why_not < 0) return why_not;
  const root& from = root_of(*where.of);
  if (!from.is_folder) {
    if (!where.rest.empty() || ends_with_slash(path)) return -ENOTDIR;
    return open_file_name(from);
  }
  return open_beneath(from.name.get(), where.rest, O_PATH | (follows_link ? 0 : O_NOFOLLOW), 0);
}

int access_list::find_path(int folder, std::string& path) const {
  struct stat s{};
  const std::string now = name_of(folder);
  if (now.empty() || ::fstat(folder, &s) != 0) return -ENOSYS;
  if (s.st_nlink == 0) return -ENOENT;
  std::size_t longest = 0;
  for (const prefix& p : prefixes_) {
    // Ask for the prefix's name, too, because the folder that it names may have been renamed.
    const std::string root = name_of(root_of(p).name.get());
    if (root.empty() || root.size() < longest || !is_beneath(now, root)) continue;
    longest = root.size();
    path = p.path + now.substr(root.size());
  }
  return longest > 0 ? 0 : -EACCES;
}

int access_list::open_parent(std::string_view path, parent& found) const {
  beneath where{};
  if (const int why_not = locate(path, where); why_not < 0) return why_not;
  if (!where.of->is_writable) return -EACCES;
  const root& from = root_of(*where.of);
  if (!from.is_folder) return where.rest.empty() ? -EACCES : -ENOTDIR;
  std::string_view rest = where.rest;
  found.wants_folder = ends_with_slash(rest);
  while (ends_with_slash(rest))
    rest.remove_suffix(1);
  const std::size_t slash = rest.rfind('/');
  found.name = rest.substr(slash == std::string_view::npos ? 0 : slash + 1);
  // Refuse a path that is itself a prefix, because targets cannot remove or rename the prefixes
  // themselves.
  if (found.name.empty()) return -EBUSY;
  if (found.name == ".") return -EINVAL;
  if (found.name == "..") return -EACCES;
  const int folder =
      open_beneath(from.name.get(), slash == std::string_view::npos ? "" : rest.substr(0, slash),
                   O_PATH | O_DIRECTORY, 0);
  if (folder < 0) return folder;
  found.folder = unique_fd(folder);
  return 0;
}

} // namespace farcall::files
