// SPDX-License-Identifier: Apache-2.0
#include "tests/network/proxy.hpp"
#include "tests/network/support.hpp"

#include <farcall/transport/tcp/secret.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

/// Tests the rights of trusted nodes. The guide's page on security documents them; a change that
/// removes one of them must change the page.
namespace farcall::test {
namespace {

class trusted_nodes : public testing::Test {
 protected:
  trusted_nodes() {
    tcp::write_key_file(key_);
    server_.emplace(local_server(key_));
    job_.emplace(network_job(url_of(*server_), key_));
    target_ = job_->targets().front();
  }

  scratch_folder folder_;
  std::string key_ = folder_.file("key");
  std::optional<server> server_;
  std::optional<job> job_;
  node target_;
};

TEST_F(trusted_nodes, write_memory_of_each_other_by_calls) {
  int of_host = 0;
  sync(
      target_,
      [](std::uintptr_t at) {
        sync(host(), [](std::uintptr_t here) { *reinterpret_cast<int*>(here) = 7; }, at);
      },
      reinterpret_cast<std::uintptr_t>(&of_host));
  EXPECT_EQ(of_host, 7);
}

TEST_F(trusted_nodes, read_what_their_server_may_read) {
  const std::string read = sync(target_, content_of, key_);
  EXPECT_FALSE(read.empty());
  EXPECT_EQ(read, content_of(key_));
}

TEST_F(trusted_nodes, with_one_key_can_replace_each_other) {
  // A forwarder between the host and the named server leads to another server.
  server other(local_server(key_));
  const proxy between(port_of(other));
  const job led(network_job(between.url(), key_));
  EXPECT_EQ(sync(led.targets().front(), [] { return 5; }), 5);
  EXPECT_EQ(other.targets(), 1U);
}

} // namespace
} // namespace farcall::test
