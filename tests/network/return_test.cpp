// SPDX-License-Identifier: Apache-2.0
#include "tests/network/support.hpp"

#include <farcall/offload/node_change.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <unistd.h>

/// Tests nodes that join and rejoin over a network.
namespace farcall::test {
namespace {

node_id own_number() { return this_node().id(); }
node_id ask_number_of(node_id other) { return sync(node_at(other), fn<&own_number>); }

TEST(returns, targets_of_servers_can_be_added) {
  const server first(local_server());
  const server second(local_server());
  job j(network_job(url_of(first) + ",shm"));
  const node added = j.add(url_of(second));
  EXPECT_EQ(sync(added, fn<&own_number>), 3U);
  EXPECT_EQ(sync(added, fn<&ask_number_of>, 1U), 1U);
  EXPECT_EQ(sync(j.targets()[0], fn<&ask_number_of>, 3U), 3U);
  EXPECT_EQ(sync(j.targets()[1], fn<&ask_number_of>, 3U), 3U);
  const node local = j.add("shm");
  EXPECT_EQ(sync(added, fn<&ask_number_of>, local.id()), local.id());
  auto there = added.allocate<int>(100'000);
  put(std::vector<int>(100'000, 7), there).get();
  const auto last = [](remote_span<int> span) {
    std::vector<int> here(span.size());
    get(span, std::span(here)).get();
    return here.back();
  };
  EXPECT_EQ(sync(local, last, there.span()), 7);
  j.remove(added);
  EXPECT_FALSE(added.alive());
  EXPECT_EQ(sync(j.targets()[0], fn<&ask_number_of>, local.id()), local.id());
}

TEST(returns, a_target_returns_after_its_server) {
  std::optional<server> serving(local_server());
  server_options again = local_server();
  again.listen.port = port_of(*serving);
  job_options o = network_job(url_of(*serving) + ",shm");
  o.restart_lost_servers = true;
  job j(o);
  std::mutex mutex;
  std::optional<node_event> back;
  j.on_node_change([&](const node_event& e) {
    const std::lock_guard guard(mutex);
    if (e.what == node_change::joined) back = e;
  });
  const node lost = j.targets()[0];
  EXPECT_EQ(sync(lost, fn<&own_number>), 1U);
  serving.reset();
  ASSERT_TRUE(eventually([&] { return !lost.alive(); }));
  // Attempts fail meanwhile.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  serving.emplace(again);
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard guard(mutex);
    return back.has_value();
  }));
  EXPECT_EQ(back->replaces, lost.id());
  EXPECT_EQ(sync(back->where, fn<&own_number>), back->where.id());
  EXPECT_EQ(sync(j.targets()[1], fn<&ask_number_of>, back->where.id()), back->where.id());
  EXPECT_FALSE(lost.alive());
}

TEST(returns, a_failing_target_restarts_with_growing_pauses) {
  const server serving(local_server());
  job_options o = network_job(url_of(serving));
  o.restart_lost_servers = true;
  job j(o);
  std::mutex mutex;
  std::vector<time_point> joined;
  j.on_node_change([&](const node_event& e) {
    if (e.what != node_change::joined) return;
    const std::lock_guard guard(mutex);
    joined.push_back(clock::now());
    post(e.where, [] { ::_exit(3); });
  });
  post(j.targets()[0], [] { ::_exit(3); });
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard guard(mutex);
    return joined.size() >= 4;
  }));
  const std::lock_guard guard(mutex);
  // Pauses double: 0.25, 0.5, 1, 2 s.
  EXPECT_GE(joined[2] - joined[1], std::chrono::milliseconds(900));
  EXPECT_GE(joined[3] - joined[2], std::chrono::milliseconds(1800));
}

TEST(returns, the_jobs_end_does_not_wait_for_lost_servers) {
  std::optional<server> serving(local_server());
  job_options o = network_job(url_of(*serving));
  o.restart_lost_servers = true;
  const job j(o);
  const node lost = j.targets()[0];
  serving.reset();
  ASSERT_TRUE(eventually([&] { return !lost.alive(); }));
}

} // namespace
} // namespace farcall::test
