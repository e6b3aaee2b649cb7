// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>
#include <tests/jobs.hpp>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>

#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

/// Helpers of the tests of files.
namespace farcall::test {

/// A temporary folder, removed with its content at the end.
class scratch_tree {
 public:
  explicit scratch_tree(std::initializer_list<const char*> folders = {}) {
    std::string name = std::filesystem::temp_directory_path() / "farcall_files_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = std::filesystem::canonical(name).string();
    for (const char* folder : folders)
      std::filesystem::create_directory(*this / folder);
  }
  scratch_tree(const scratch_tree&) = delete;
  scratch_tree& operator=(const scratch_tree&) = delete;
  ~scratch_tree() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Returns the options of a job with one target, which reaches the host's files below `prefixes`.
inline job_options with_host_files(const std::string& prefixes) {
  job_options options = with_targets("shm");
  options.host_files = prefixes;
  return options;
}

/// Writes a file, and makes the folders above it.
inline void write_file(const std::string& path, const std::string& content) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

/// Reads a descriptor to its end, and closes it.
inline std::string content_of(int descriptor) {
  const unique_fd file(descriptor);
  std::string all;
  std::array<char, 4096> piece{};
  for (ssize_t got = 0; (got = ::read(file.get(), piece.data(), piece.size())) > 0;)
    all.append(piece.data(), static_cast<std::size_t>(got));
  return all;
}

inline std::string content_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Makes this process act without the rights of root, if it has them, as long as the object lives.
class ordinary_user {
 public:
  ordinary_user() : is_root_(::geteuid() == 0), is_active_(!is_root_ || ::seteuid(nobody) == 0) {}
  ordinary_user(const ordinary_user&) = delete;
  ordinary_user& operator=(const ordinary_user&) = delete;
  ~ordinary_user() {
    if (!is_root_ || !is_active_) return;
    // The system makes a process that changes its user undumpable, which refuses copies by attach.
    if (::seteuid(0) != 0 || ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) std::abort();
  }

  /// False if the system does not let root be another user.
  [[nodiscard]] bool is_active() const noexcept { return is_active_; }

 private:
  static constexpr uid_t nobody = 65534;
  const bool is_root_;
  const bool is_active_;
};

} // namespace farcall::test
