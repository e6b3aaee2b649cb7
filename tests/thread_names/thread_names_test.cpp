// SPDX-License-Identifier: Apache-2.0

// The threads of a job that uses all kinds of threads have the names in docs/architecture.md.

#include <farcall/async/stop_token.hpp>
#include <farcall/farcall.hpp>
#include <tests/support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace farcall::test {
namespace {

using ::testing::IsSubsetOf;
using ::testing::IsSupersetOf;

/// Returns the names in the second column of the table of threads.
std::set<std::string> names_of_table() {
  std::set<std::string> names;
  std::ifstream page(FARCALL_THREAD_TABLE);
  bool is_in_section = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) is_in_section = line == "## Threads";
    if (!is_in_section || !line.starts_with("| ")) continue;
    const auto begin = line.find("| `", 2);
    if (begin == std::string::npos) continue;
    names.insert(line.substr(begin + 3, line.find('`', begin + 3) - begin - 3));
  }
  return names;
}

std::string name_of(const std::filesystem::path& task) {
  std::ifstream comm(task / "comm");
  std::string name;
  // The name is empty if the thread has ended since.
  std::getline(comm, name);
  return name;
}

/// Returns the names of this process's threads except the name of its main thread, which a
/// sanitizer's threads have, too.
std::set<std::string> names_of_threads() {
  std::set<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    names.insert(name_of(task.path()));
  names.erase("");
  names.erase(name_of("/proc/self"));
  return names;
}

std::vector<std::string> names_there() {
  const std::set<std::string> names = names_of_threads();
  return {names.begin(), names.end()};
}

void sleep_until_stopped() {
  while (!stop_token_of_call().stop_requested())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Awaits a call without blocking a thread until a deadline, and then requests its stop.
future<bool> is_late(node where) {
  std::stop_source source;
  future<void> call = async(where.with(source.get_token()), sleep_until_stopped);
  bool is_late = false;
  try {
    co_await call.within(std::chrono::milliseconds(10));
  } catch (const timeout&) {
    is_late = true;
  }
  source.request_stop();
  co_return is_late;
}

TEST(thread_names, match_the_table) {
  const std::set<std::string> table = names_of_table();
  EXPECT_LE(table.size(), 9U);
  EXPECT_EQ(table.count("farcall-loop"), 1U);

  const std::string trace =
      (std::filesystem::temp_directory_path() / ("threads-" + std::to_string(::getpid()))).string();
  job_options options;
  options.targets = "shm:2?workers=2";
  options.trace = trace;
  job j(options);
  const node target = j.targets().front();
  // Start the threads for deadlines and stops, large copies and lanes.
  EXPECT_TRUE(is_late(target).get());
  std::vector<std::byte> bytes(std::size_t{16} << 20);
  auto memory = target.allocate<std::byte>(bytes.size());
  put(bytes, memory).get();
  lane own(target);
  const std::vector<std::string> there = async(own, names_there).get();
  EXPECT_THAT(there, IsSubsetOf(table));
  EXPECT_THAT(there, IsSupersetOf({"farcall-worker", "farcall-service"}));
  EXPECT_EQ(std::count(there.begin(), there.end(), "farcall-loop"), 0)
      << "a target over shared memory has no descriptor or time to wait for";
  EXPECT_THAT(names_of_threads(), IsSubsetOf(table));
  EXPECT_THAT(names_of_threads(), IsSupersetOf({"farcall-worker", "farcall-then", "farcall-copy",
                                                "farcall-loop", "farcall-service"}));
  std::filesystem::remove(trace);
}

} // namespace
} // namespace farcall::test
