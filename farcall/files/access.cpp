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

/// As much as fits what the host tells its targets.
constexpr std::size_t longest_list = 4000;

bool ends_with_slash(std::string_view path) { return !path.empty() && path.back() == '/'; }

/// `path` is `folder`, or lies beneath it. Both are normal.
bool is_beneath(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

/// The next word of a path, behind `at`; empty at its end. `at` moves behind it.
std::string_view next_word(std::string_view path, std::size_t& at) {
  while (at < path.size() && path[at] == '/')
    ++at;
  const std::size_t begin = at;
  at = std::min(path.find('/', at), path.size());
  return path.substr(begin, at - begin);
}

int open_beneath(int folder, std::string_view rest, int flags, mode_t mode) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  // Nothing that would run as the host's user, by whoever starts it.
  if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) how.mode = mode & 01777;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const std::string path(rest.empty() ? "." : rest);
  // The kernel gives up where somebody renames at the same time; and where somebody holds a lease.
  constexpr int most_tries = 100;
  for (int tries = 1;; ++tries) {
    const long fd = ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how);
    if (fd >= 0) return static_cast<int>(fd);
    if (errno == EINTR || (errno == EAGAIN && tries < most_tries)) continue;
    return errno == EXDEV ? -EACCES : -errno;
  }
}

/// 0 where a program may read and write it as a file, or list it.
int check_kind(int fd) {
  struct stat s{};
  if (::fstat(fd, &s) != 0) return -errno;
  // Of a link, opening it says what is wrong.
  return S_ISREG(s.st_mode) || S_ISDIR(s.st_mode) || S_ISLNK(s.st_mode) ? 0 : -EACCES;
}

bool changes(int flags) {
  return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0 ||
         (flags & O_TMPFILE) == O_TMPFILE;
}

} // namespace

std::vector<prefix> parse_prefixes(std::string_view text, const std::string& what) {
  std::vector<prefix> found;
  if (text.size() > longest_list) {
    throw setting_error(what + " is longer than " + std::to_string(longest_list) +
                        " bytes; name folders further up");
  }
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
    root r{unique_fd(::open(p.path.c_str(), O_PATH | O_CLOEXEC)), false};
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
    r.is_folder = ::fstat(r.name.get(), &s) == 0 && S_ISDIR(s.st_mode);
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
}

bool access_list::is_writable(std::string_view path) const {
  const auto where = find_prefix(prefixes_, path);
  return where && where->of->is_writable;
}

int access_list::open(std::string_view path, int flags, mode_t mode) const {
  const auto where = find_prefix(prefixes_, path);
  if (!where) return -EACCES;
  if (path.size() >= PATH_MAX) return -ENAMETOOLONG;
  if (!where->of->is_writable) {
    if (changes(flags)) return -EACCES;
    // What is there may be opened so; nothing is made.
    flags &= ~(O_CREAT | O_EXCL);
  }
  const root& from = root_of(*where->of);
  if (!from.is_folder) {
    if (!where->rest.empty() || ends_with_slash(path)) return -ENOTDIR;
    const std::string itself = "/proc/self/fd/" + std::to_string(from.name.get());
    const int fd = ::open(itself.c_str(), (flags & ~(O_CREAT | O_NOFOLLOW)) | O_CLOEXEC | O_NOCTTY);
    return fd >= 0 ? fd : -errno;
  }
  // First by its name only: opening a device or a pipe may do something.
  const unique_fd name(
      open_beneath(from.name.get(), where->rest, O_PATH | (flags & O_NOFOLLOW), 0));
  if (name) {
    if (const int why_not = check_kind(name.get()); why_not < 0) return why_not;
  }
  const int opened =
      open_beneath(from.name.get(), where->rest, flags | O_NOCTTY | O_NONBLOCK, mode);
  if (opened < 0) return !where->of->is_writable && opened == -EROFS ? -EACCES : opened;
  // It may be another one now.
  if (const int why_not = check_kind(opened); why_not < 0) {
    ::close(opened);
    return why_not;
  }
  return opened;
}

int access_list::open_name(std::string_view path, bool follows_link) const {
  const auto where = find_prefix(prefixes_, path);
  if (!where) return -EACCES;
  if (path.size() >= PATH_MAX) return -ENAMETOOLONG;
  const root& from = root_of(*where->of);
  if (!from.is_folder) {
    if (!where->rest.empty() || ends_with_slash(path)) return -ENOTDIR;
    const int fd = ::fcntl(from.name.get(), F_DUPFD_CLOEXEC, 0);
    return fd >= 0 ? fd : -errno;
  }
  return open_beneath(from.name.get(), where->rest, O_PATH | (follows_link ? 0 : O_NOFOLLOW), 0);
}

int access_list::open_parent(std::string_view path, parent& found) const {
  const auto where = find_prefix(prefixes_, path);
  if (!where || !where->of->is_writable) return -EACCES;
  if (path.size() >= PATH_MAX) return -ENAMETOOLONG;
  const root& from = root_of(*where->of);
  if (!from.is_folder) return where->rest.empty() ? -EACCES : -ENOTDIR;
  std::string_view rest = where->rest;
  found.wants_folder = ends_with_slash(rest);
  while (ends_with_slash(rest))
    rest.remove_suffix(1);
  const std::size_t slash = rest.rfind('/');
  found.name = rest.substr(slash == std::string_view::npos ? 0 : slash + 1);
  // The prefix itself stays.
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
