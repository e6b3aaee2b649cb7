// SPDX-License-Identifier: Apache-2.0
#include "metrics.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/am/message.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace farcall::tool {
namespace {

using testing::HasSubstr;

job_sample one_process() {
  job_sample sample;
  job_sample::process p;
  p.number = 100;
  p.file = 1;
  p.counts.host_process = 100;
  p.counts.peers = {{0, 100, 1, "self", "here", "host"}, {1, 101, 1, "shm", "here", "node 1"}};
  p.counts.callers.resize(3);
  p.counts.callers[0].peer = 1;
  p.counts.callers[0].calls = 5;
  p.counts.callers[1].peer = 1;
  p.counts.callers[1].calls = 7;
  p.counts.callers[2].peer = 0;
  p.counts.callers[2].calls = 1;
  p.counts.workers.resize(1);
  p.counts.workers[0].handlers.resize(am::first_user_key + 1);
  p.counts.workers[0].handlers[am::first_user_key] = 3;
  p.counts.functions = {"quote\"back\\slash\nnew"};
  sample.processes = {p};
  return sample;
}

TEST(metrics, sum_lanes_to_the_same_node) {
  const std::string text = metrics_text(one_process());
  EXPECT_THAT(text, HasSubstr("farcall_calls_total{job=\"100\",node=\"0\",pid=\"100\",peer=\"1\"} "
                              "12\n"));
  EXPECT_THAT(text, HasSubstr("peer=\"0\"} 1\n"));
}

TEST(metrics, quote_names_of_functions) {
  EXPECT_THAT(metrics_text(one_process()),
              HasSubstr("function=\"quote\\\"back\\\\slash\uFFFDnew\"} 3\n"));
}

TEST(metrics, keep_their_format_with_any_function_name) {
  job_sample sample = one_process();
  sample.processes[0].counts.functions = {"a\xFF\xC2\x9B"};
  EXPECT_THAT(metrics_text(sample), HasSubstr("function=\"a\uFFFD\uFFFD\"} 3\n"));
}

TEST(metrics, are_served_on_loopback_only) {
  const auto nothing = [] { return std::string(); };
  for (const char* address : {"0.0.0.0:0", "192.0.2.1:80", "example.org:80"}) {
    EXPECT_THROW(serve_metrics(address, nothing, [](const std::string& /*where*/) {}),
                 usage_problem)
        << address;
  }
  EXPECT_THROW(serve_metrics("no address", nothing, [](const std::string& /*where*/) {}),
               usage_problem);
}

} // namespace
} // namespace farcall::tool
