#pragma once

#include <farcall/farcall.hpp>

#include <farcall/files/files_test_support.hpp>
#include <farcall/offload/job_test_support.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/tcp/secret.hpp>
#include <farcall/transport/tcp/server.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include <unistd.h>

/// What the tests of the preloaded library share.
namespace farcall::test {

/// The descriptor is one of the host's files: one of the system's has its path there.
inline bool is_forwarded(int fd) {
  char name[256] = {};
  (void)!::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1);
  return std::string(name).starts_with("socket:");
}

/// How targets reach the host: "shm", where they are told to forward although they are on its
/// machine, or "tcp" or "tls", a server in this process.
class forwarding_job : public ::testing::TestWithParam<const char*> {
 protected:
  forwarding_job() {
    std::filesystem::create_directories(tree_ / "in");
    std::filesystem::create_directories(tree_ / "read");
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
    options.host_files = (tree_ / "in,") + (tree_ / "read:ro,/dev/zero");
    job_.emplace(options);
    target_ = job_->targets().front();
  }

  scratch_tree tree_;
  std::optional<server> server_;
  std::optional<job> job_;
  node target_;
};

} // namespace farcall::test
