// SPDX-License-Identifier: Apache-2.0

// Jobs whose targets the host reaches over a transport that the program loads as a module.

#include <farcall/base/version.hpp>
#include <farcall/transport/transport_module.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace farcall::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

// Set before the first use of the table of transports. Targets inherit the variable.
[[maybe_unused]] const bool is_set = ::setenv("FARCALL_TRANSPORT_MODULES", PIPE_MODULE, 1) == 0;

int twice(int v) { return 2 * v; }
long long sum(remote_span<int> v) {
  const std::span<int> here = v.local();
  return std::accumulate(here.begin(), here.end(), 0LL);
}
std::size_t size_of(const std::vector<int>& v) { return v.size(); }
std::vector<int> count_to(int n) {
  std::vector<int> v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), 1);
  return v;
}
int ask_host(int v) { return sync(node_at(host_id), fn<&twice>, v) + 1; }
void end_at_once() { std::raise(SIGKILL); }

/// Options with which threads sleep rather than spin, so that messages must wake them.
job_options sleeping(const std::string& targets) {
  job_options o;
  o.targets = targets;
  o.waiting = {.spin = {}, .yield_after = {}};
  return o;
}

TEST(jobs, are_made_of_targets_that_a_module_reaches) {
  job j(sleeping("pipe:2"));
  ASSERT_EQ(j.size(), 3U);
  for (const node& n : j.targets()) {
    EXPECT_EQ(n.description().transport, "pipe");
    for (int i = 0; i < 100; ++i)
      ASSERT_EQ(sync(n, fn<&twice>, i), 2 * i);
  }
}

TEST(jobs, wake_threads_that_sleep) {
  job j(sleeping("pipe"));
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(sync(j.targets()[0], fn<&twice>, i), 2 * i);
    std::this_thread::sleep_for(std::chrono::milliseconds(20)); // the target's worker is asleep
  }
  EXPECT_EQ(sync(j.targets()[0], fn<&ask_host>, 4), 9);
}

TEST(jobs, carry_more_than_a_ring_or_a_pipe_takes) {
  job j(sleeping("pipe"));
  const node target = j.targets()[0];
  std::vector<future<int>> calls;
  for (int i = 0; i < 20'000; ++i)
    calls.push_back(async(target, fn<&twice>, i));
  const std::vector<int> many = count_to(1'000'000);
  const auto there = target.allocate<int>(many.size());
  put(std::span(many), there).get();
  EXPECT_EQ(sync(target, fn<&sum>, there.span()), 500'000'500'000LL);
  std::vector<int> back(many.size());
  get(there, std::span(back)).get();
  EXPECT_EQ(back, many);
  for (int i = 0; i < 20'000; ++i)
    ASSERT_EQ(calls[static_cast<std::size_t>(i)].get(), 2 * i);
}

TEST(jobs, refuse_arguments_that_a_module_cannot_fetch) {
  job j(sleeping("pipe"));
  EXPECT_THAT([&] { (void)async(j.targets()[0], fn<&size_of>, count_to(1'000'000)); },
              ThrowsMessage<error>(AllOf(HasSubstr("node 1"), HasSubstr("lane_bytes"))));
}

TEST(jobs, mix_a_modules_targets_with_others) {
  job j(sleeping("shm,pipe"));
  EXPECT_EQ(j.targets()[0].description().transport, "shm");
  EXPECT_EQ(j.targets()[1].description().transport, "pipe");
  for (const node& n : j.targets())
    EXPECT_EQ(sync(n, fn<&ask_host>, 1), 3);
}

TEST(jobs, notice_that_a_modules_target_has_died) {
  job j(sleeping("pipe:2"));
  auto last = async(j.targets()[0], fn<&end_at_once>);
  EXPECT_THROW(last.get(), node_failed);
  EXPECT_EQ(sync(j.targets()[1], fn<&twice>, 3), 6);
}

TEST(transport_modules, say_what_is_wrong_with_them) {
  const struct {
    const char* files;
    std::string reason;
  } all[] = {
      {"/no/such/module.so", "cannot be loaded"},
      {"libm.so.6", "is no module with a transport"},
      {FOREIGN_MODULE, "was built for another version of farcall (18.52.86) or with another "
                       "standard library than this program (" +
                           release_text(this_release)},
      {PIPE_MODULE "," PIPE_MODULE, "whose transport \"pipe\" is there already"},
      {PIPE_MODULE ",", "empty name"},
      {"carrier", "whose module is not installed: there is no /"},
  };
  for (const auto& bad : all) {
    std::vector<transport_entry> rows;
    EXPECT_THAT(
        [&] { add_modules(rows, bad.files, "the variable"); },
        ThrowsMessage<setting_error>(AllOf(HasSubstr("the variable"), HasSubstr(bad.reason))))
        << bad.files;
  }
}

TEST(transport_modules, are_looked_for_where_farcall_is_installed) {
  const std::vector<std::string> files = module_files("carrier");
  EXPECT_THAT(files, Each(AllOf(StartsWith("/"),
                                EndsWith("/" + versioned_folder() + "/libfarcall-carrier.so"))));
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  const auto lib =
      program.parent_path().parent_path() / "lib" / versioned_folder() / "libfarcall-carrier.so";
  EXPECT_THAT(files, Contains(lib.string()));
}

TEST(transport_modules, may_be_missing_if_no_setting_names_them) {
  std::vector<transport_entry> rows;
  add_module_if_present(rows, "carrier");
  EXPECT_TRUE(rows.empty());
}

TEST(transport_modules, are_not_loaded_if_the_setting_is_empty) {
  std::vector<transport_entry> rows;
  add_modules(rows, "", "the variable");
  EXPECT_TRUE(rows.empty());
}

} // namespace
} // namespace farcall::test
