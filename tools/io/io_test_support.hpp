// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/farcall.hpp>

#include <farcall/files/files_test_support.hpp>
#include <farcall/server/server.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/tcp/secret.hpp>
#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

/// Helpers of the tests of the preloaded library.
namespace farcall::test {

/// True if the descriptor stands for a file of the host: /proc shows a path only for the system's
/// files.
inline bool is_forwarded(int fd) {
  char name[256] = {};
  (void)!::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1);
  return std::string(name).starts_with("socket:");
}

/// Returns errno if the call has failed, and 0 otherwise.
inline int error_of(std::int64_t result) { return result < 0 ? errno : 0; }

/// Calls a function of a path in a child of a fork, and returns its list of numbers. If a target
/// calls this function, the child is a client of the target.
inline std::vector<std::int64_t> in_child(std::vector<std::int64_t> (*use)(const std::string&),
                                          const std::string& path) {
  std::array<int, 2> pipe{};
  std::vector<std::int64_t> seen;
  if (::pipe(pipe.data()) != 0) return seen;
  const pid_t child = ::fork();
  if (child == 0) {
    for (const std::int64_t each : use(path))
      (void)!::write(pipe[1], &each, sizeof each);
    ::_exit(0);
  }
  ::close(pipe[1]);
  std::int64_t each = 0;
  while (::read(pipe[0], &each, sizeof each) == sizeof each)
    seen.push_back(each);
  ::close(pipe[0]);
  int status = 0;
  (void)::waitpid(child, &status, 0);
  if (status != 0) seen.push_back(-1000 - status);
  return seen;
}

/// Runs a target with each route to the host: "shm", with forwarding although it is on the host's
/// machine, or "tcp" or "tls", by a server in this process.
class forwarding_job : public ::testing::TestWithParam<const char*> {
 protected:
  forwarding_job() {
    std::filesystem::create_directories(tree_ / "in");
    std::filesystem::create_directories(tree_ / "read");
    std::filesystem::create_directories(tree_ / "up/per");
    const scoped_variable preload("LD_PRELOAD", FARCALL_IO_LIBRARY);
    const scoped_variable forward("FARCALL_IO_FORWARD", "always");
    job_options options;
    options.targets = GetParam();
    if (options.targets != "shm") {
      if (options.targets == "tls") {
        options.key = tree_ / "key";
        tcp::write_key_file(options.key);
      }
      server_options served;
      served.listen = {"127.0.0.1", 0};
      served.program = running_program;
      served.arguments = {"farcall_io_tests"};
      served.access.key = options.key;
      served.plain = options.key.empty();
      server_.emplace(std::move(served));
      options.targets = "tcp://127.0.0.1:" + std::to_string(server_->addresses().front().port);
    }
    options.host_files = (tree_ / "in,") + (tree_ / "read:ro,") + (tree_ / "up/per,/dev/zero");
    job_.emplace(options);
    target_ = job_->targets().front();
  }

  scratch_tree tree_;
  std::optional<server> server_;
  std::optional<job> job_;
  node target_;
};

/// The host's folders have other names than the host tells its targets, so that calls that are not
/// forwarded fail to find them.
class hidden_files_job : public forwarding_job {
 protected:
  hidden_files_job() {
    std::filesystem::rename(tree_ / "in", tree_ / "host-in");
    std::filesystem::rename(tree_ / "read", tree_ / "host-read");
    std::filesystem::rename(tree_ / "up", tree_ / "host-up");
    in_ = tree_ / "in";
    read_ = tree_ / "read";
    upper_ = tree_ / "up/per";
  }
  /// Returns the name of a file at the host.
  [[nodiscard]] std::string at_host(const std::string& name) const {
    return tree_ / ("host-in/" + name);
  }
  [[nodiscard]] std::string at_host_read(const std::string& name) const {
    return tree_ / ("host-read/" + name);
  }

  /// Paths by which the target uses the folders.
  std::string in_;
  std::string read_;
  std::string upper_; ///< for the target, the folder above does not exist
};

} // namespace farcall::test
