// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace farcall::files {

/// One part of the host's files that targets may use, like a line of NFS's /etc/exports. It is a
/// single file, or a folder with everything beneath it.
struct prefix {
  std::string path; ///< absolute path, without "." and "..", and without a slash at the end
  bool is_writable = false;

  friend bool operator==(const prefix&, const prefix&) = default;
};

/// Parses a list of prefixes such as "/data:ro,/home/me". Commas separate the paths, and each path
/// may be followed by ":ro" (read only) or ":rw" (the default). Relative paths begin at the working
/// folder. `what` names the source of the text in error messages. Throws setting_error, for
/// instance if the absolute paths have more than 4,000 bytes together. Also refuses a read-only
/// folder beneath a writable one, because targets could write to it through a symbolic link that
/// they make in the writable folder.
[[nodiscard]] std::vector<prefix> parse_prefixes(std::string_view text, const std::string& what);

/// Returns the prefixes as a text, which parse_prefixes() can read in any process.
[[nodiscard]] std::string text_of(std::span<const prefix> prefixes);

/// An absolute path, divided into a prefix and the rest of the path beneath it.
struct beneath {
  const prefix* of;      ///< the longest prefix that the path is beneath
  std::string_view rest; ///< the path after the prefix, without a leading slash
};

/// Returns the prefix that contains a path. Compares only the words of the path, and opens no file.
/// Returns nothing if no prefix contains the path, or if the path is relative. If a path leaves its
/// prefix by "..", it is still found here, but opening it fails.
[[nodiscard]] std::optional<beneath> find_prefix(std::span<const prefix> prefixes,
                                                 std::string_view path);

/// Opens files beneath a host's prefixes only. Neither "..", symbolic links nor the magic links of
/// /proc lead out of a prefix, even if other processes change the folders during the call (by
/// Linux's openat2() with RESOLVE_BENEATH). Devices, pipes and sockets are refused unless a prefix
/// names them. Immutable; any thread may use it.
///
/// The functions may block like the system calls that they make. They return a descriptor or 0 on
/// success, and -errno on errors. The error is EACCES if the path is in no prefix, leads out of its
/// prefix, is a special file, or is read-only and would be changed.
class access_list {
 public:
  /// Opens the folders and files that the prefixes name. Throws setting_error if one does not
  /// exist, or if a read-only prefix is in truth beneath a writable one, and error if the system
  /// has no openat2().
  explicit access_list(std::vector<prefix> prefixes);

  [[nodiscard]] std::span<const prefix> prefixes() const noexcept { return prefixes_; }

  /// Opens a file like open(2), with O_CLOEXEC. The caller owns the descriptor, which has
  /// O_NONBLOCK. Never waits for another process: returns -EAGAIN if the file has a lease, or is a
  /// pipe to be written that no process has open for reading.
  [[nodiscard]] int open(std::string_view path, int flags, mode_t mode) const;

  /// Opens a descriptor that only names a file (O_PATH), for fstat() and similar calls. The file
  /// may be of any type.
  [[nodiscard]] int open_name(std::string_view path, bool follows_link) const;

  /// Folder and name of a file that the caller is about to make, rename or remove.
  struct parent {
    unique_fd folder;
    std::string name; ///< name without slashes, neither "." nor ".."
    /// True if the path ends with a slash. Such a path must name a folder.
    bool wants_folder = false;
  };
  [[nodiscard]] int open_parent(std::string_view path, parent& found) const;

  /// Returns the path at which targets find a folder that is open, which may have been renamed
  /// since. Returns -ENOENT if the folder was removed, -EACCES if it is beneath no prefix any more,
  /// and -ENOSYS if the system does not tell.
  [[nodiscard]] int find_path(int folder, std::string& path) const;

  /// True if the prefix of the path is writable for targets.
  [[nodiscard]] bool is_writable(std::string_view path) const;

 private:
  struct root {
    unique_fd name; ///< opened with O_PATH
    bool is_folder = false;
    /// Folder and name of a regular file. The file is opened by its name each time, because the
    /// host may replace it. The folder is empty for other files.
    unique_fd folder;
    std::string file_name;
  };

  [[nodiscard]] const root& root_of(const prefix& p) const noexcept {
    return roots_[static_cast<std::size_t>(&p - prefixes_.data())];
  }
  /// Finds the prefix of a path. Returns 0, -EACCES if there is none, or -ENAMETOOLONG.
  [[nodiscard]] int locate(std::string_view path, beneath& found) const;
  /// Throws setting_error if a read-only prefix is beneath a writable one by the folders' own
  /// paths, which symbolic links may hide in the prefixes' paths.
  void check_real_paths() const;
  [[nodiscard]] static int open_file_name(const root& from);
  [[nodiscard]] static int open_file(const root& from, int flags, mode_t mode);

  std::vector<prefix> prefixes_;
  std::vector<root> roots_; ///< one for each prefix
};

} // namespace farcall::files
