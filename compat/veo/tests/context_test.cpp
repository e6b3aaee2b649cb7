// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <set>
#include <thread>
#include <vector>

#include <unistd.h>

namespace veo_test {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

veo_thr_ctxt* open(const process& p) {
  const bounded b("veo_context_open");
  return veo_context_open(p.get());
}

int close(veo_thr_ctxt* context) {
  const bounded b("veo_context_close");
  return veo_context_close(context);
}

/// Opens a context with a stack of `size` bytes; not the first of its process.
veo_thr_ctxt* open_with_stack(const process& p, std::size_t size) {
  const bounded b("veo_context_open_with_attr");
  veo_thr_ctxt_attr* const attributes = veo_alloc_thr_ctxt_attr();
  EXPECT_EQ(veo_set_thr_ctxt_stacksize(attributes, size), 0);
  veo_thr_ctxt* const context = veo_context_open_with_attr(p.get(), attributes);
  EXPECT_EQ(veo_free_thr_ctxt_attr(attributes), 0);
  return context;
}

TEST(context, the_first_one_is_the_main_one) {
  const process p;
  // The main context exists, but was not opened.
  ASSERT_EQ(veo_num_contexts(p.get()), 0);
  veo_thr_ctxt* const main = veo_get_context(p.get(), 0);
  ASSERT_NE(main, nullptr);
  EXPECT_EQ(open(p), main);
  EXPECT_EQ(veo_num_contexts(p.get()), 1);
}

TEST(context, with_attributes_is_first_the_main_one) {
  const process p;
  EXPECT_EQ(open_with_stack(p, 16 * mib), veo_get_context(p.get(), 0));
  EXPECT_EQ(veo_num_contexts(p.get()), 1);
}

TEST(context, later_ones_are_new_and_in_order) {
  const process p;
  std::vector<veo_thr_ctxt*> all;
  for (int i = 0; i < 5; ++i) {
    all.push_back(open(p));
    ASSERT_NE(all.back(), nullptr);
    EXPECT_EQ(veo_num_contexts(p.get()), i + 1);
  }
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 5U);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(veo_get_context(p.get(), i), all[static_cast<std::size_t>(i)]);
}

TEST(context, closed_ones_are_not_counted) {
  const process p;
  veo_thr_ctxt* const main = open(p);
  veo_thr_ctxt* const a = open(p);
  veo_thr_ctxt* const b = open(p);
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(close(a), 0);
  EXPECT_EQ(veo_num_contexts(p.get()), 2);
  EXPECT_EQ(veo_get_context(p.get(), 0), main);
  EXPECT_EQ(veo_get_context(p.get(), 1), b);
  EXPECT_EQ(veo_get_context(p.get(), 2), nullptr);
  veo_thr_ctxt* const c = open(p);
  EXPECT_EQ(veo_num_contexts(p.get()), 3);
  EXPECT_EQ(veo_get_context(p.get(), 2), c);
}

TEST(context, closed_twice_says_nothing) {
  captured_output errors(STDERR_FILENO);
  veo_thr_ctxt* closed = nullptr;
  veo_thr_ctxt* gone = nullptr;
  {
    process p;
    ASSERT_NE(open(p), nullptr);
    closed = open(p);
    gone = open(p);
    EXPECT_EQ(close(closed), 0);
    EXPECT_EQ(close(closed), 0);
    EXPECT_EQ(p.destroy(), 0);
  }
  // py-veo does this at the end of a program.
  EXPECT_EQ(close(gone), 0);
  EXPECT_EQ(close(closed), 0);
  EXPECT_EQ(errors.end(), "");
}

TEST(context, used_after_its_end_is_an_error) {
  process other(1);
  veo_thr_ctxt* closed = nullptr;
  veo_thr_ctxt* gone = nullptr;
  veo_proc_handle* destroyed = nullptr;
  std::uint64_t kernel = 0;
  {
    process p;
    destroyed = p.get();
    kernel = p.symbol("same");
    gone = open(p);
    closed = open(p);
    for (veo_thr_ctxt* const c : {gone, closed})
      EXPECT_EQ(call(c, kernel, std::uint64_t{5}), ok(5));
    EXPECT_EQ(close(closed), 0);
  }
  std::uint64_t word = 0;
  veo_args* const arguments = veo_args_alloc();
  for (veo_thr_ctxt* const c : {gone, closed}) {
    errno = 0;
    EXPECT_EQ(veo_call_async(c, kernel, arguments), VEO_REQUEST_ID_INVALID);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(last_error(), "this context, or its process, has been closed");
    EXPECT_EQ(veo_call_wait_result(c, 1, &word), -1);
    EXPECT_EQ(veo_call_peek_result(c, 1, &word), -1);
    EXPECT_EQ(veo_async_read_mem(c, &word, 0, sizeof word), VEO_REQUEST_ID_INVALID);
  }
  veo_args_free(arguments);
  EXPECT_EQ(veo_read_mem(destroyed, &word, 0, sizeof word), -1);
  EXPECT_EQ(last_error(), "this process has been destroyed");
  EXPECT_EQ(veo_load_library(destroyed, "x.so"), 0U);
  EXPECT_EQ(other.call("same", std::uint64_t{6}), 6U);
}

TEST(context, that_is_not_there) {
  const process p;
  EXPECT_EQ(veo_get_context(p.get(), 1), nullptr);
  EXPECT_EQ(veo_get_context(p.get(), -1), nullptr);
  EXPECT_EQ(veo_get_context(p.get(), 1000000), nullptr);
  errno = 0;
  EXPECT_EQ(veo_num_contexts(nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST(context, the_main_one_cannot_be_closed) {
  process p;
  veo_thr_ctxt* const main = open(p);
  const std::uint64_t request = submit(main, p.symbol("same"), std::uint64_t{5});
  EXPECT_EQ(close(main), 0);
  EXPECT_EQ(close(main), 0);
  EXPECT_EQ(veo_num_contexts(p.get()), 1);
  EXPECT_EQ(veo_get_context(p.get(), 0), main);
  EXPECT_EQ(veo_get_context_state(main), VEO_STATE_RUNNING);
  // Its results stay, too.
  EXPECT_EQ(collect(main, request), ok(5));
  EXPECT_EQ(call(main, p.symbol("same"), std::uint64_t{6}), ok(6));
}

TEST(context, has_a_thread_of_its_own) {
  process p;
  const std::uint64_t thread_id = p.symbol("thread_id");
  std::set<std::uint64_t> threads;
  for (int i = 0; i < 4; ++i) {
    veo_thr_ctxt* const context = open(p);
    const outcome first = call(context, thread_id);
    ASSERT_EQ(first.state, VEO_COMMAND_OK);
    threads.insert(first.value);
    for (int n = 0; n < 10; ++n)
      EXPECT_EQ(call(context, thread_id), first);
  }
  EXPECT_EQ(threads.size(), 4U);
}

TEST(context, the_main_one_runs_what_is_called_synchronously) {
  process p;
  EXPECT_EQ(call(p.main(), p.symbol("thread_id")), ok(p.call("thread_id")));
}

TEST(context, keeps_variables_of_its_thread) {
  process p;
  const std::uint64_t count = p.symbol("count_in_thread");
  veo_thr_ctxt* const a = p.open();
  veo_thr_ctxt* const b = p.open();
  for (std::uint64_t i = 1; i <= 3; ++i)
    EXPECT_EQ(call(a, count), ok(i));
  EXPECT_EQ(call(b, count), ok(1));
  EXPECT_EQ(call(a, count), ok(4));
}

TEST(context, closing_finishes_what_was_submitted) {
  process p;
  const std::uint64_t count = p.symbol("count");
  for (std::uint64_t round = 1; round <= 20; ++round) {
    veo_thr_ctxt* const context = p.open();
    ASSERT_NE(submit(context, p.symbol("pause_for"), std::uint64_t{1000}), VEO_REQUEST_ID_INVALID);
    for (int i = 0; i < 50; ++i)
      ASSERT_NE(submit(context, count), VEO_REQUEST_ID_INVALID);
    EXPECT_EQ(close(context), 0);
    ASSERT_EQ(p.call("counted"), 50 * round);
  }
}

TEST(context, closing_waits_for_functions_of_this_program) {
  process p;
  veo_thr_ctxt* const context = p.open();
  std::atomic<int> called{0};
  const auto function = [](void* argument) -> std::uint64_t {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++*static_cast<std::atomic<int>*>(argument);
    return 0;
  };
  for (int i = 0; i < 20; ++i)
    ASSERT_NE(veo_call_async_vh(context, function, &called), VEO_REQUEST_ID_INVALID);
  EXPECT_EQ(close(context), 0);
  EXPECT_EQ(called, 20);
}

TEST(context, opened_and_closed_often) {
  process p;
  const std::uint64_t same = p.symbol("same");
  for (std::uint64_t i = 0; i < 100; ++i) {
    veo_thr_ctxt* const context = p.open();
    ASSERT_EQ(call(context, same, i), ok(i));
    ASSERT_EQ(close(context), 0);
  }
  EXPECT_EQ(veo_num_contexts(p.get()), 1);
}

TEST(context, many_at_once) {
  process p;
  const std::uint64_t same = p.symbol("same");
  std::vector<veo_thr_ctxt*> all;
  for (int i = 0; i < 40; ++i)
    all.push_back(p.open());
  std::vector<std::uint64_t> requests;
  for (std::uint64_t i = 0; i < all.size(); ++i)
    requests.push_back(submit(all[i], same, i));
  for (std::uint64_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(collect(all[i], requests[i]), ok(i));
  EXPECT_EQ(veo_num_contexts(p.get()), 41);
}

TEST(context, opened_and_closed_by_several_threads) {
  process p;
  const std::uint64_t same = p.symbol("same");
  (void)open(p);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 20; ++i) {
        veo_thr_ctxt* const context = open(p);
        if (context != nullptr && call(context, same, t * 100 + i) == ok(t * 100 + i)) ++right;
        close(context);
      }
    });
  }
  for (std::thread& t : threads)
    t.join();
  EXPECT_EQ(right, 80);
  EXPECT_EQ(veo_num_contexts(p.get()), 1);
}

TEST(context, is_running_until_its_process_ends) {
  process p;
  veo_thr_ctxt* const context = p.open();
  EXPECT_EQ(veo_get_context_state(context), VEO_STATE_RUNNING);
  EXPECT_EQ(veo_get_context_state(p.main()), VEO_STATE_RUNNING);
  ASSERT_EQ(call(context, p.symbol("call_abort")).state, VEO_COMMAND_EXCEPTION);
  EXPECT_TRUE(eventually([&] { return veo_get_context_state(context) == VEO_STATE_EXIT; }));
  EXPECT_TRUE(eventually([&] { return veo_get_context_state(p.main()) == VEO_STATE_EXIT; }));
}

// --- attributes ----------------------------------------------------------------------------------

TEST(context_attributes, have_a_stack_of_128_mib) {
  veo_thr_ctxt_attr* const attributes = veo_alloc_thr_ctxt_attr();
  ASSERT_NE(attributes, nullptr);
  std::size_t size = 0;
  EXPECT_EQ(veo_get_thr_ctxt_stacksize(attributes, &size), 0);
  EXPECT_EQ(size, 0x8000000U);
  EXPECT_EQ(veo_free_thr_ctxt_attr(attributes), 0);
}

TEST(context_attributes, keep_the_stack_size) {
  veo_thr_ctxt_attr* const attributes = veo_alloc_thr_ctxt_attr();
  std::size_t size = 0;
  EXPECT_EQ(veo_set_thr_ctxt_stacksize(attributes, 4 * mib), 0);
  EXPECT_EQ(veo_get_thr_ctxt_stacksize(attributes, &size), 0);
  EXPECT_EQ(size, 4 * mib);
  errno = 0;
  EXPECT_EQ(veo_set_thr_ctxt_stacksize(attributes, 4 * mib - 1), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(veo_get_thr_ctxt_stacksize(attributes, &size), 0);
  EXPECT_EQ(size, 4 * mib);
  EXPECT_EQ(veo_free_thr_ctxt_attr(attributes), 0);
}

TEST(context_attributes, that_are_none) {
  std::size_t size = 0;
  const auto refuses = [](auto call) {
    errno = 0;
    EXPECT_EQ(call(), -1);
    EXPECT_EQ(errno, EINVAL);
  };
  refuses([&] { return veo_set_thr_ctxt_stacksize(nullptr, 8 * mib); });
  refuses([&] { return veo_get_thr_ctxt_stacksize(nullptr, &size); });
  refuses([&] { return veo_free_thr_ctxt_attr(nullptr); });
  veo_thr_ctxt_attr* const attributes = veo_alloc_thr_ctxt_attr();
  refuses([&] { return veo_get_thr_ctxt_stacksize(attributes, nullptr); });

  const process p;
  errno = 0;
  EXPECT_EQ(veo_context_open_with_attr(p.get(), nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(veo_context_open_with_attr(nullptr, attributes), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(veo_num_contexts(p.get()), 0);
  EXPECT_EQ(veo_free_thr_ctxt_attr(attributes), 0);
}

TEST(context_attributes, give_the_stack_they_say) {
  process p;
  const std::uint64_t use_stack = p.symbol("use_stack");
  (void)open(p);
  // A frame is 4 KiB.
  veo_thr_ctxt* const usual = open(p);
  ASSERT_NE(usual, nullptr);
  EXPECT_EQ(call(usual, use_stack, std::uint64_t{100 * mib}), ok(25600));
  veo_thr_ctxt* const large = open_with_stack(p, 512 * mib);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(call(large, use_stack, std::uint64_t{480 * mib}), ok(122880));
  veo_thr_ctxt* const small = open_with_stack(p, 4 * mib);
  ASSERT_NE(small, nullptr);
  EXPECT_EQ(call(small, use_stack, std::uint64_t{3 * mib}), ok(768));
}

TEST(context_attributes, limit_a_small_stack) {
  process p;
  const std::uint64_t use_stack = p.symbol("use_stack");
  (void)open(p);
  veo_thr_ctxt* const small = open_with_stack(p, 4 * mib);
  ASSERT_NE(small, nullptr);
  EXPECT_EQ(call(small, use_stack, std::uint64_t{64 * mib}), exception(SIGSEGV));
}

} // namespace
} // namespace veo_test
