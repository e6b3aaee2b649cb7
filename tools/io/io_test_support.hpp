#pragma once

#include <farcall/farcall.hpp>

#include <farcall/files/files_test_support.hpp>
#include <farcall/offload/job_test_support.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/tcp/server.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

/// What the tests of the preloaded library share.
namespace farcall::test {

/// How targets reach the host: "shm", where they are told to forward although they are on its
/// machine, or "tcp", a server in this process.
class forwarding_job : public ::testing::TestWithParam<const char*> {
 protected:
  forwarding_job() {
    std::filesystem::create_directories(tree_ / "in");
    std::filesystem::create_directories(tree_ / "read");
    const scoped_variable preload("LD_PRELOAD", FARCALL_IO_LIBRARY);
    const scoped_variable forward("FARCALL_IO_FORWARD", "always");
    job_options options;
    options.targets = GetParam();
    if (options.targets == "tcp") {
      server_options served;
      served.listen = {"127.0.0.1", 0};
      served.program = running_program;
      served.arguments = {"farcall_io_tests"};
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
