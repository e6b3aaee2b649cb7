// SPDX-License-Identifier: Apache-2.0
#include <farcall/memory/ring.hpp>
#include <farcall/transport/tcp/tcp.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <utility>

namespace farcall::test::transport_end_test {
namespace {

TEST(tcp_transport_end, destroys_a_loop_that_only_the_transport_owns) {
  tcp::options o;
  o.self = 1;
  o.nodes = 2;
  o.ring_bytes = min_ring;
  o.credentials = tcp::job_credentials::make(false);
  o.heartbeat_timeout = std::chrono::seconds(5);
  o.loop = std::make_shared<event_loop>("farcall-loop");
  const std::weak_ptr<event_loop> loop = o.loop;
  event_loop& runs = *o.loop;
  tcp::make(runs, std::move(o)).reset();
  EXPECT_TRUE(loop.expired());
}

} // namespace
} // namespace farcall::test::transport_end_test
