// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/farcall.hpp>

#include <farcall/files/files_test_support.hpp>
#include <farcall/server/server.hpp>
#include <farcall/transport/process.hpp>
#include <tests/jobs.hpp>
#include <tests/shell_output.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

/// Helpers of the tests of mounts.
namespace farcall::test {

/// True if the path is below a mount by FUSE.
inline bool is_mounted(const std::string& path) {
  constexpr long fuse_magic = 0x65735546;
  struct statfs s{};
  return ::statfs(path.c_str(), &s) == 0 && s.f_type == fuse_magic;
}

/// True if the system is this version of Linux, or a later one.
inline bool is_linux_from(int major, int minor) {
  utsname system{};
  int found_major = 0;
  int found_minor = 0;
  // NOLINTNEXTLINE(cert-err34-c): a wrong number is a skipped test
  return ::uname(&system) == 0 &&
         std::sscanf(system.release, "%d.%d", &found_major, &found_minor) == 2 &&
         (found_major > major || (found_major == major && found_minor >= minor));
}

/// Returns the reason why this machine allows no mounts, or an empty text.
inline std::string why_no_mounts() {
  // NOLINTNEXTLINE(cert-env33-c): the program is a part of the build
  std::FILE* const out = ::popen(FARCALL_MOUNT_PROGRAM " --check", "r");
  std::array<char, 1000> text{};
  const std::size_t got = std::fread(text.data(), 1, text.size(), out);
  return ::pclose(out) == 0 ? "" : std::string(text.data(), got);
}

/// Runs shell commands, and returns their output, and the status if that is not 0. $I and $R are
/// the host's folders, $R read-only; $E is this program.
inline std::string output_of(const std::string& tree, const std::string& commands) {
  ::setenv("I", (tree + "/in").c_str(), 1);
  ::setenv("R", (tree + "/read").c_str(), 1);
  ::setenv("T", tree.c_str(), 1);
  ::setenv("E", std::filesystem::read_symlink("/proc/self/exe").c_str(), 1);
  return shell_output(commands);
}

/// Returns the processes whose command line contains a text.
inline std::vector<pid_t> processes_with(const std::string& text) {
  std::vector<pid_t> found;
  for (const auto& each : std::filesystem::directory_iterator("/proc")) {
    const std::string name = each.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(each.path() / "cmdline");
    std::stringstream words;
    words << file.rdbuf();
    if (words.str().find(text) != std::string::npos) found.push_back(std::stoi(name));
  }
  return found;
}

/// Returns the helpers of a process: processes in its mount namespace that run farcall-mount.
inline std::vector<pid_t> helpers_of(pid_t target) {
  std::vector<pid_t> found;
  const auto space_of = [](pid_t pid) {
    std::error_code ignored;
    return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/ns/mnt", ignored)
        .string();
  };
  for (const pid_t each : processes_with("farcall-mount")) {
    std::error_code ignored;
    const std::filesystem::path program =
        std::filesystem::read_symlink("/proc/" + std::to_string(each) + "/exe", ignored);
    if (program.filename() == "farcall-mount" && space_of(each) == space_of(target))
      found.push_back(each);
  }
  return found;
}

/// Variables with which targets on this machine mount the host's files.
struct mounting_variables {
  scoped_variable wrap{"FARCALL_WRAP", FARCALL_MOUNT_PROGRAM};
  scoped_variable forward{"FARCALL_IO_FORWARD", "always"};
  scoped_variable by{"FARCALL_HOST_FILES_BY", "mount"};
};

/// Runs a target that has mounted the host's files, with each route to the host: "shm" or "tcp", by
/// a server in this process.
class mounting_job : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const std::string why_not = why_no_mounts(); !why_not.empty())
      GTEST_SKIP() << "this system allows no mounts: " << why_not;
    std::filesystem::create_directories(tree_ / "in");
    std::filesystem::create_directories(tree_ / "read");
    write_file(tree_ / "single", "one file");
    start((tree_ / "in,") + (tree_ / "read:ro,") + (tree_ / "single"));
  }

  void start(const std::string& host_files) {
    const mounting_variables mounting;
    job_options options;
    options.targets = GetParam();
    if (options.targets != "shm") {
      server_options served;
      served.listen = {"127.0.0.1", 0};
      served.program = FARCALL_MOUNT_PROGRAM;
      served.arguments = {"farcall-mount", std::filesystem::read_symlink("/proc/self/exe")};
      served.plain = true;
      server_.emplace(std::move(served));
      options.targets = "tcp://127.0.0.1:" + std::to_string(server_->addresses().front().port);
    }
    options.host_files = host_files;
    job_.emplace(options);
    target_ = job_->targets().front();
  }

  [[nodiscard]] std::string in(const std::string& name) const { return tree_ / ("in/" + name); }
  [[nodiscard]] std::string read(const std::string& name) const { return tree_ / ("read/" + name); }

  /// Runs a shell on the target.
  std::string shell(const std::string& commands) {
    return sync(target_, fn<&output_of>, std::filesystem::path(tree_ / ".").parent_path().string(),
                commands);
  }

  scratch_tree tree_;
  std::optional<server> server_;
  std::optional<job> job_;
  node target_;
};

} // namespace farcall::test
