// SPDX-License-Identifier: Apache-2.0
#include "tests/network/support.hpp"
#include "tests/sanitizer.hpp"

#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <list>
#include <string>

#include <unistd.h>

/// Measures the memory of lanes between machines that are open and seldom used.
namespace farcall::test {
namespace {

constexpr std::size_t lanes = 100;
constexpr std::size_t max_per_end = std::size_t{128} << 10;

constexpr const char* key_variable = "FARCALL_TEST_LANE_KEY";

/// Resident bytes of this process.
std::size_t resident() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

int be_server() {
  block_end_signals();
  const char* const key = std::getenv(key_variable);
  if (key == nullptr) return 90;
  server s(local_server(key));
  say(url_of(s));
  serve_until_signalled(s);
  return 0;
}
const role server_role("lane_memory_server", be_server);

class lane_memory : public testing::TestWithParam<bool> {};

TEST_P(lane_memory, at_an_idle_end_is_at_most_128_kib) {
  if (under_sanitizer) GTEST_SKIP() << "a sanitizer keeps more than the program";
  const scratch_folder folder;
  const std::string key = folder.make_key(GetParam());
  const scoped_variable told(key_variable, key.c_str());
  role_process serving("lane_memory_server");
  const job j(network_job(serving.line(), key));
  const node target = j.targets().front();
  std::list<lane> all;
  const auto open = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_EQ(sync(all.emplace_back(target), [] { return 7; }), 7);
  };
  // The first lanes also allocate memory that all lanes share.
  open(10);
  const std::size_t here = resident();
  const std::size_t there = sync(target, resident);
  open(lanes);
  RecordProperty("here", std::to_string((resident() - here) / lanes));
  RecordProperty("there", std::to_string((sync(target, resident) - there) / lanes));
  EXPECT_LE((resident() - here) / lanes, max_per_end);
  EXPECT_LE((sync(target, resident) - there) / lanes, max_per_end);
}

INSTANTIATE_TEST_SUITE_P(with, lane_memory, testing::Bool(),
                         [](const auto& of) { return of.param ? "tls" : "tcp"; });

} // namespace
} // namespace farcall::test
