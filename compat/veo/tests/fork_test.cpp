// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

namespace veo_test {
namespace {

constexpr int good = 7;

/// Exit status of AddressSanitizer after leaks: a child that exits leaks the memory that only
/// stacks of its parent's other threads refer to.
constexpr int leaks = 1;

constexpr unsigned max_seconds = 60;

/// Forks a child that calls exit() with the value of `f`, and returns its status from waitpid().
/// Kills a child that does not end.
int status_of_child(const std::function<int()>& f) {
  // AddressSanitizer's locks do not survive a fork: wait until other threads are idle.
  if (under_sanitizer) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(max_seconds);
    std::exit(f());
  }
  int status = -1;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return -1;
  return status;
}

bool has_exited_well(int status) {
  return WIFEXITED(status) &&
         (WEXITSTATUS(status) == good || (under_sanitizer && WEXITSTATUS(status) == leaks));
}

TEST(forked_program, leaves_the_process_of_its_parent_alone) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t same = p.symbol("same");
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(has_exited_well(status_of_child([] { return good; })));
    EXPECT_EQ(p.call("same", i), i);
    EXPECT_EQ(call(context, same, i + 10), ok(i + 10));
  }
  EXPECT_EQ(p.destroy(), 0);
}

TEST(forked_program, leaves_requests_of_its_parent_alone) {
  process p;
  veo_thr_ctxt* const context = p.open();
  gate g(p);
  const std::uint64_t waiting = submit(context, p.symbol("wait_at"), g.address());
  // A host function starts the context's thread in this process.
  const std::uint64_t here =
      veo_call_async_vh(context, [](void*) -> std::uint64_t { return 8; }, nullptr);
  (void)g.wait_for_kernel();
  EXPECT_TRUE(has_exited_well(status_of_child([] { return good; })));
  EXPECT_EQ(peek(context, waiting).state, VEO_COMMAND_UNFINISHED);
  g.open(5);
  EXPECT_EQ(collect(context, waiting), ok(5));
  EXPECT_EQ(collect(context, here), ok(8));
  EXPECT_EQ(p.destroy(), 0);
}

TEST(forked_program, cannot_use_what_it_has_inherited) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t same = p.symbol("same");
  const std::uint64_t request = submit(context, same, std::uint64_t{1});
  EXPECT_TRUE(has_exited_well(status_of_child([&] {
    const arguments a(std::uint64_t{2});
    std::uint64_t value = 0;
    if (veo_call_sync(p.get(), same, a.get(), &value) != -1) return 11;
    if (last_error().find("forked") == std::string::npos) return 12;
    if (veo_call_async(context, same, a.get()) != VEO_REQUEST_ID_INVALID) return 13;
    if (veo_call_wait_result(context, request, &value) != -1) return 14;
    if (veo_read_mem(p.get(), &value, same, 8) != -1) return 15;
    if (veo_get_context_state(context) != VEO_STATE_UNKNOWN) return 16;
    veo_context_sync(context);
    if (veo_context_close(context) != 0 || veo_proc_destroy(p.get()) != 0) return 18;
    return good;
  })));
  EXPECT_EQ(collect(context, request), ok(1));
  EXPECT_EQ(p.call("same", std::uint64_t{3}), 3U);
}

TEST(forked_program, cannot_copy_what_it_has_inherited) {
  process p;
  void* there = nullptr;
  ASSERT_EQ(veo_alloc_hmem(p.get(), &there, 64), 0);
  EXPECT_TRUE(has_exited_well(status_of_child([&] {
    std::uint64_t here = 0;
    if (veo_hmemcpy(&here, there, 8) != -1) return 11;
    if (last_error().find("forked") == std::string::npos) return 12;
    if (last_error().find("job") != std::string::npos) return 13;
    if (veo_hmemcpy(there, &here, 8) != -1) return 14;
    if (veo_hmemcpy(there, static_cast<char*>(there) + 8, 8) != -1) return 15;
    if (veo_free_hmem(there) != -1) return 16;
    if (veo_get_proc_handle_from_hmem(there) != nullptr) return 17;
    return good;
  })));
  EXPECT_EQ(veo_free_hmem(there), 0);
}

TEST(forked_program, has_processes_of_its_own) {
  if (farcall::test::under_thread_sanitizer) {
    GTEST_SKIP() << "ThreadSanitizer lets no child of a process with threads have some";
  }
  process p;
  EXPECT_TRUE(has_exited_well(status_of_child([] {
    process own(1);
    return own.call("same", std::uint64_t{good}) == good ? good : 12;
  })));
  EXPECT_EQ(p.call("same", std::uint64_t{4}), 4U);
}

} // namespace
} // namespace veo_test
