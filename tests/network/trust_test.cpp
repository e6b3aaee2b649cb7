#include "tests/network/proxy.hpp"
#include "tests/network/support.hpp"

#include <farcall/transport/tcp/secret.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

/// What those may do who are trusted: the guide's page on security says so, and a change that takes
/// something of it away has to change the page.
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

TEST_F(trusted_nodes, of_one_key_stand_for_each_other) {
  // Who stands between the host and the server that it names leads it to another one.
  server other(local_server(key_));
  const proxy between(port_of(other));
  const job led(network_job(between.url(), key_));
  EXPECT_EQ(sync(led.targets().front(), [] { return 5; }), 5);
  EXPECT_EQ(other.targets(), 1U);
}

} // namespace
} // namespace farcall::test
