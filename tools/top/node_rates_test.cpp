// SPDX-License-Identifier: Apache-2.0
#include "node_rates.hpp"

#include <farcall/am/message.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>

namespace farcall::tool {
namespace {

using testing::Optional;

/// A host that calls a local target and a remote one.
job_sample two_nodes() {
  job_sample sample;
  job_sample::process host;
  host.number = 100;
  host.file = 1;
  host.counts.node = 0;
  host.counts.host_process = 100;
  host.counts.host_machine = "here";
  host.counts.peers = {{0, 100, 1, "self", "here", "host"},
                       {1, 101, 1, "shm", "here", "node 1"},
                       {2, 7, 1, "tcp", "there", "solver"}};
  host.counts.callers.resize(2);
  host.counts.callers[0].peer = 1;
  host.counts.callers[1].peer = 2;
  for (auto& c : host.counts.callers)
    c.is_open = true;
  job_sample::process target;
  target.number = 101;
  target.file = 2;
  target.counts.node = 1;
  target.counts.host_process = 100;
  target.counts.host_machine = "here";
  target.counts.peers = {{0, 100, 1, "shm", "here", "host"}};
  target.counts.servers.resize(1);
  target.counts.workers.resize(1);
  target.counts.functions = {"", "", "N7farcall4fn_tIXadL_Z3addiiEEEE"};
  sample.processes = {host, target};
  return sample;
}

job_sample after(job_sample sample, double seconds) {
  sample.at +=
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  return sample;
}

const node_rates& node_of(const std::vector<node_rates>& all, node_id node) {
  for (const node_rates& n : all) {
    if (n.node == node) return n;
  }
  throw std::runtime_error("no such node");
}

TEST(node_rates, come_from_the_node_itself_if_local) {
  const job_sample before = two_nodes();
  job_sample later = after(before, 2);
  later.processes[1].counts.workers[0].requests = 500;
  later.processes[1].counts.servers[0].bytes_in = 4096;
  later.processes[0].counts.callers[0].calls = 510;
  later.processes[0].counts.callers[0].answers = 495;
  const auto rates = rates_between(before, later);
  ASSERT_EQ(rates.size(), 3U);
  const node_rates& target = node_of(rates, 1);
  EXPECT_DOUBLE_EQ(target.calls, 250);
  EXPECT_DOUBLE_EQ(target.bytes_in, 2048);
  EXPECT_EQ(target.queue, 15U);
  EXPECT_EQ(target.route, "shm");
  EXPECT_TRUE(target.is_here);
}

TEST(node_rates, come_from_callers_for_remote_nodes) {
  const job_sample before = two_nodes();
  job_sample later = after(before, 1);
  auto& lane = later.processes[0].counts.callers[1];
  lane.calls = 30;
  lane.posts = 10;
  lane.answers = 30;
  lane.failures = 4;
  lane.bytes_out = 1000;
  lane.bytes_in = 300;
  const node_rates far = node_of(rates_between(before, later), 2);
  EXPECT_FALSE(far.is_here);
  EXPECT_DOUBLE_EQ(far.calls, 40);
  EXPECT_DOUBLE_EQ(far.failures, 4);
  EXPECT_DOUBLE_EQ(far.bytes_in, 1000);
  EXPECT_DOUBLE_EQ(far.bytes_out, 300);
  EXPECT_EQ(far.queue, 0U);
  EXPECT_EQ(far.name, "solver");
  EXPECT_EQ(far.busy, std::nullopt);
}

TEST(node_rates, take_durations_of_the_interval_only) {
  job_sample before = two_nodes();
  before.processes[0].counts.callers[0].latency.buckets[duration_counts::bucket_of(1'000'000)] = 9;
  job_sample later = after(before, 1);
  auto& latency = later.processes[0].counts.callers[0].latency;
  for (int i = 0; i < 98; ++i)
    latency.add(1024);
  latency.add(65536);
  latency.add(65536);
  const node_rates target = node_of(rates_between(before, later), 1);
  // Middles of the buckets 1024 to 1280, and 65536 to 81920.
  EXPECT_THAT(target.p50, Optional(1152.0));
  EXPECT_THAT(target.p99, Optional(73728.0));
  EXPECT_EQ(node_of(rates_between(before, later), 2).p50, std::nullopt);
}

TEST(node_rates, name_the_function_that_ran_longest) {
  const job_sample before = two_nodes();
  job_sample later = after(before, 1);
  constexpr std::uint64_t add_key = am::first_user_key + 2;
  later.processes[1].looks = 10;
  later.processes[1].running = {{add_key, 4}, {am::first_user_key + 77, 1}};
  const node_rates target = node_of(rates_between(before, later), 1);
  EXPECT_THAT(target.busy, Optional(0.5));
  EXPECT_EQ(target.function, "add");
  constexpr std::uint64_t handle = 7;
  later.processes[1].counts.named = {{later.processes[1].counts.functions[2], handle, "solve"}};
  later.processes[1].running = {{handle << 32 | add_key, 4}, {add_key, 1}};
  EXPECT_EQ(node_of(rates_between(before, later), 1).function, "solve");
}

TEST(node_rates, restart_with_a_new_process) {
  job_sample before = two_nodes();
  before.processes[1].counts.workers[0].requests = 1'000'000;
  job_sample later = after(before, 1);
  later.processes[1].counts.workers[0].requests = 5;
  EXPECT_DOUBLE_EQ(node_of(rates_between(before, later), 1).calls, 5);
}

TEST(node_rates, keep_jobs_apart) {
  job_sample both = two_nodes();
  job_sample other = two_nodes();
  for (auto& p : other.processes) {
    p.counts.host_process = 200;
    p.file += 10;
    both.processes.push_back(p);
  }
  EXPECT_EQ(rates_between(both, after(both, 1)).size(), 6U);
}

/// Renumbers a sample as in a container: the host is process 1, and its targets follow.
job_sample in_container(job_sample sample, ino_t numbers, pid_t first_number) {
  for (auto& p : sample.processes) {
    p.counts.process = 1 + p.counts.node;
    p.counts.host_process = 1;
    p.counts.peers[0].process = 1;
    p.number = first_number + static_cast<pid_t>(p.counts.node);
    p.numbers = numbers;
    p.file += numbers;
  }
  return sample;
}

TEST(node_rates, keep_jobs_of_containers_apart) {
  job_sample both = in_container(two_nodes(), 1000, 50);
  for (const auto& p : in_container(two_nodes(), 2000, 70).processes)
    both.processes.push_back(p);
  job_sample later = after(both, 1);
  later.processes[1].counts.workers[0].requests = 5;
  find_hosts(later);
  const std::vector<node_rates> nodes = rates_between(both, later);
  ASSERT_EQ(nodes.size(), 6U);
  EXPECT_EQ(nodes[0].job, 50);
  EXPECT_EQ(nodes[0].process, 50);
  EXPECT_DOUBLE_EQ(nodes[1].calls, 5);
  EXPECT_EQ(nodes[1].process, 51);
  EXPECT_EQ(nodes[3].job, 70);
  EXPECT_DOUBLE_EQ(nodes[4].calls, 0);
}

TEST(node_rates, merge_a_job_in_two_containers) {
  job_sample sample = in_container(two_nodes(), 1000, 50);
  sample.processes[1].numbers = 2000;
  find_hosts(sample);
  const std::vector<node_rates> nodes = rates_between(sample, after(sample, 1));
  EXPECT_EQ(nodes.size(), 3U);
  EXPECT_EQ(nodes[1].job, 50);
}

TEST(node_rates, are_none_without_processes) {
  EXPECT_TRUE(rates_between(two_nodes(), job_sample{}).empty());
}

TEST(handler_name, is_the_functions_name_if_known) {
  process_counters counts;
  counts.functions = {"", "", "N7farcall4fn_tIXadL_Z3subiiEEEE"};
  EXPECT_EQ(handler_name(counts, am::first_user_key + 2), "sub");
  EXPECT_EQ(handler_name(counts, am::first_user_key), "handler 16");
  EXPECT_EQ(handler_name(counts, am::first_user_key + 3), "handler 19");
  EXPECT_EQ(handler_name(counts, am::fence_key), "farcall's own");
}

TEST(handler_name, is_the_name_of_the_called_function) {
  process_counters counts;
  const std::string handler = "N7farcall1c10named_callE";
  counts.functions = {"N7farcall4fn_tIXadL_Z3subiiEEEE", handler};
  counts.named = {{handler, 7, "solve"}, {handler, 8, "one"}, {handler, 8, "two"}};
  constexpr std::uint32_t key = am::first_user_key + 1;
  EXPECT_EQ(handler_name(counts, key, 7), "solve");
  EXPECT_EQ(handler_name(counts, key), "farcall::c::named_call");
  EXPECT_EQ(handler_name(counts, key, 9), "farcall::c::named_call");
  // Two names have this handle.
  EXPECT_EQ(handler_name(counts, key, 8), "farcall::c::named_call");
  // The handle is another handler's.
  EXPECT_EQ(handler_name(counts, key - 1, 7), "sub");
}

} // namespace
} // namespace farcall::tool
