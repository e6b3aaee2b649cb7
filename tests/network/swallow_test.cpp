#include "tests/network/proxy.hpp"
#include "tests/network/support.hpp"

#include <farcall/transport/tcp/secret.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

/// Forwarders that acknowledge what they get, and do not deliver it.
namespace farcall::test {
namespace {

using std::chrono::milliseconds;

class network_forwarders : public testing::TestWithParam<std::tuple<proxy::way, bool>> {
 protected:
  network_forwarders() {
    if (has_key()) tcp::write_key_file(key_ = folder_.file("key"));
    server_.emplace(local_server(key_));
    between_.emplace(port_of(*server_));
    job_options o = network_job(between_->url(), key_);
    o.heartbeat_timeout = timeout;
    job_.emplace(o);
    target_ = job_->targets().front();
    pid_ = sync(target_, ::getpid);
  }
  static proxy::way swallowed() { return std::get<0>(GetParam()); }
  static bool has_key() { return std::get<1>(GetParam()); }

  static constexpr milliseconds timeout{500};
  captured_log log_;
  scratch_folder folder_;
  std::string key_;
  std::optional<server> server_;
  std::optional<proxy> between_;
  std::optional<job> job_;
  node target_;
  pid_t pid_ = 0;
};

TEST_P(network_forwarders, that_swallow_a_lane_fail_its_calls) {
  between_->swallow(swallowed());
  future<pid_t> call = async(target_, ::getpid);
  ASSERT_TRUE(call.wait_for(std::chrono::seconds(60)));
  EXPECT_THROW((void)call.get(), node_failed);
  EXPECT_TRUE(target_.alive());
  // The sender finds that, on either side.
  EXPECT_TRUE(log_.comes_to_say("acknowledged on the way and did not arrive"));
  between_->swallow(proxy::way::none);
  EXPECT_EQ(sync(target_, ::getpid), pid_);
}

TEST_P(network_forwarders, that_deliver_let_handlers_run_for_long) {
  future<int> slow = async(target_, [] {
    std::this_thread::sleep_for(5 * timeout);
    return 1;
  });
  // More than the lane's ring takes.
  std::vector<future<std::size_t>> behind;
  for (int i = 0; i < 400; ++i)
    behind.push_back(async(
        target_, [](const std::vector<char>& v) { return v.size(); }, std::vector<char>(3000)));
  EXPECT_EQ(slow.get(), 1);
  for (future<std::size_t>& f : behind)
    EXPECT_EQ(f.get(), 3000U);
  EXPECT_EQ(log_.count("did not arrive"), 0U) << log_.text();
}

INSTANTIATE_TEST_SUITE_P(
    with, network_forwarders,
    testing::Combine(testing::Values(proxy::way::to_server, proxy::way::to_client),
                     testing::Bool()),
    [](const auto& of) {
      return std::string(std::get<0>(of.param) == proxy::way::to_server ? "requests" : "replies") +
             (std::get<1>(of.param) ? "_tls" : "_tcp");
    });

} // namespace
} // namespace farcall::test
