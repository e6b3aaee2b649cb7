#pragma once

#include <farcall/base/unique_fd.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace farcall::files {

/// What of the host's files targets may use: a folder with all that is beneath it, or one file. As
/// a line of NFS's /etc/exports.
struct prefix {
  std::string path; ///< absolute; without ".", ".." and a slash at the end
  bool is_writable = false;

  friend bool operator==(const prefix&, const prefix&) = default;
};

/// Reads "/data:ro,/home/me": paths separated by commas, each with ":ro" (read only) or ":rw", the
/// default, behind it. A path that is not absolute is taken from the working folder. `what` is
/// where the text was given. Throws setting_error, also for a read-only folder beneath a writable
/// one, which a symbolic link in the latter would make writable.
[[nodiscard]] std::vector<prefix> parse_prefixes(std::string_view text, const std::string& what);

/// What parse_prefixes() makes the same list of, wherever it is read.
[[nodiscard]] std::string text_of(std::span<const prefix> prefixes);

/// Where an absolute path lies.
struct beneath {
  const prefix* of;      ///< the longest that fits
  std::string_view rest; ///< of the path, behind it; without a slash at its beginning
};

/// Which prefix a path lies beneath, by its words only; nothing: none, or the path is not absolute.
/// Once the path is beneath one, ".." does not lead out again: opening it is refused instead.
[[nodiscard]] std::optional<beneath> find_prefix(std::span<const prefix> prefixes,
                                                 std::string_view path);

/// Opens files beneath a host's prefixes, and nothing else: neither "..", nor symbolic links, nor
/// the magic links of /proc lead out of one, whatever others do to the folders meanwhile (Linux's
/// openat2() with RESOLVE_BENEATH). Devices, pipes and sockets are refused unless a prefix names
/// them. Immutable; any thread may use it.
///
/// What its functions do may block as the system calls do. They return a descriptor or 0, or less
/// than 0: -errno. EACCES: the path is in no prefix, leads out of it, is something special, or
/// would change what is read-only.
class access_list {
 public:
  /// Opens the prefixes themselves. Throws setting_error for one that is not there, and error where
  /// the system has no openat2().
  explicit access_list(std::vector<prefix> prefixes);

  [[nodiscard]] std::span<const prefix> prefixes() const noexcept { return prefixes_; }

  /// As open(2), with O_CLOEXEC. The caller owns the descriptor.
  [[nodiscard]] int open(std::string_view path, int flags, mode_t mode) const;

  /// A descriptor that only names what is there (O_PATH), whatever it is: for fstat() and the like.
  [[nodiscard]] int open_name(std::string_view path, bool follows_link) const;

  /// The folder that a name lies in, of something that is to be made, renamed or removed.
  struct parent {
    unique_fd folder;
    std::string name;          ///< without slashes, neither "." nor ".."
    bool wants_folder = false; ///< the path ends with a slash
  };
  [[nodiscard]] int open_parent(std::string_view path, parent& found) const;

  /// The path lies where targets may write.
  [[nodiscard]] bool is_writable(std::string_view path) const;

 private:
  struct root {
    unique_fd name; ///< O_PATH
    bool is_folder = false;
  };

  [[nodiscard]] const root& root_of(const prefix& p) const noexcept {
    return roots_[static_cast<std::size_t>(&p - prefixes_.data())];
  }

  std::vector<prefix> prefixes_;
  std::vector<root> roots_; ///< of each
};

} // namespace farcall::files
