// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace veo_test {
namespace {

TEST(call, returns_the_whole_word) {
  process p;
  for (const std::uint64_t value : {0UL, 1UL, ~0UL, 1UL << 63, 0x0123456789ABCDEFUL})
    EXPECT_EQ(p.call("same", value), value);
}

TEST(call, asynchronous_is_collected_by_number) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t request = submit(context, p.symbol("add"), std::int64_t{1}, std::int64_t{2});
  ASSERT_NE(request, VEO_REQUEST_ID_INVALID);
  EXPECT_EQ(collect(context, request), ok(3));
}

TEST(call, by_name) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t library = p.library("basic");
  const arguments a(std::int64_t{1}, std::int64_t{2});
  for (int i = 0; i < 5; ++i) {
    const bounded b("veo_call_async_by_name");
    const std::uint64_t request = veo_call_async_by_name(context, library, "add", a.get());
    ASSERT_NE(request, VEO_REQUEST_ID_INVALID);
    EXPECT_EQ(collect(context, request), ok(3));
  }
}

TEST(call, by_a_name_that_is_not_there) {
  process p;
  const bounded b("veo_call_async_by_name");
  const arguments none;
  EXPECT_EQ(veo_call_async_by_name(p.main(), p.library("basic"), "no_such_kernel", none.get()),
            VEO_REQUEST_ID_INVALID);
  EXPECT_NE(last_error().find("no_such_kernel"), std::string::npos) << last_error();
  EXPECT_EQ(p.call("same", std::uint64_t{4}), 4U);
}

TEST(call, without_a_context_is_refused) {
  process p;
  const arguments none;
  std::uint64_t word = 0;
  EXPECT_EQ(veo_call_async(nullptr, p.symbol("nothing"), none.get()), VEO_REQUEST_ID_INVALID);
  EXPECT_EQ(veo_async_read_mem(nullptr, &word, p.symbol("variable"), 8), VEO_REQUEST_ID_INVALID);
  EXPECT_LT(veo_call_sync(nullptr, p.symbol("nothing"), none.get(), &word), 0);
}

TEST(call, without_a_function_is_refused) {
  process p;
  const bounded b("calls of the address 0");
  const arguments a(std::uint64_t{1});
  std::uint64_t word = 0;
  EXPECT_EQ(veo_call_async(p.main(), 0, a.get()), VEO_REQUEST_ID_INVALID);
  EXPECT_NE(last_error().find("veo_get_sym"), std::string::npos) << last_error();
  EXPECT_EQ(veo_call_async(p.main(), 0, nullptr), VEO_REQUEST_ID_INVALID);
  EXPECT_EQ(veo_call_sync(p.get(), 0, a.get(), &word), -1);
  EXPECT_EQ(p.call("same", std::uint64_t{5}), 5U);
}

TEST(call, can_run_host_functions) {
  process p;
  veo_thr_ctxt* const context = p.open();
  struct seen {
    std::thread::id thread;
    std::uint64_t value = 0;
  } s;
  s.value = 5;
  const auto function = [](void* argument) -> std::uint64_t {
    auto& s = *static_cast<seen*>(argument);
    s.thread = std::this_thread::get_id();
    return std::exchange(s.value, 6);
  };
  const std::uint64_t request = veo_call_async_vh(context, function, &s);
  ASSERT_NE(request, VEO_REQUEST_ID_INVALID);
  EXPECT_EQ(collect(context, request), ok(5));
  EXPECT_EQ(s.value, 6U);
  EXPECT_NE(s.thread, std::thread::id());
}

// --- numbers -------------------------------------------------------------------------------------

TEST(request_number, counts_from_1_in_each_context) {
  process p;
  const std::uint64_t nothing = p.symbol("nothing");
  const std::uint64_t library = p.library("basic");
  for (int i = 0; i < 2; ++i) {
    veo_thr_ctxt* const context = p.open();
    for (std::uint64_t n = 1; n <= 10; ++n)
      EXPECT_EQ(submit(context, nothing), n);
    const arguments none;
    EXPECT_EQ(veo_call_async_by_name(context, library, "nothing", none.get()), 11U);
    EXPECT_EQ(veo_call_async_vh(context, [](void*) -> std::uint64_t { return 0; }, nullptr), 12U);
    std::uint64_t word = 0;
    EXPECT_EQ(veo_async_read_mem(context, &word, p.symbol("variable"), 8), 13U);
    EXPECT_EQ(veo_async_write_mem(context, p.symbol("variable"), &word, 8), 14U);
    EXPECT_EQ(veo_alloc_mem_async(context, 8), 15U);
    EXPECT_EQ(veo_free_mem_async(context, collect(context, 15).value), 16U);
    EXPECT_EQ(submit(context, nothing), 17U);
    veo_context_sync(context);
    EXPECT_EQ(submit(context, nothing), 18U);
  }
}

TEST(request_number, is_not_taken_by_refused_calls) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const arguments a;
  ASSERT_EQ(veo_args_set_i64(a.get(), 1, 1), 0);
  EXPECT_EQ(submit(context, p.symbol("nothing")), 1U);
  EXPECT_EQ(veo_call_async(context, p.symbol("add"), a.get()), VEO_REQUEST_ID_INVALID);
  EXPECT_EQ(submit(context, p.symbol("nothing")), 2U);
}

TEST(request_number, is_unique_among_threads) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t same = p.symbol("same");
  std::mutex mutex;
  std::set<std::uint64_t> numbers;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::uint64_t last = 0;
      for (std::uint64_t i = 0; i < 500; ++i) {
        const std::uint64_t request = submit(context, same, t << 32 | i);
        // Each thread's requests are in order.
        if (request <= last) ++wrong;
        last = request;
        if (collect(context, request) != ok(t << 32 | i)) ++wrong;
        const std::lock_guard lock(mutex);
        numbers.insert(request);
      }
    });
  }
  for (std::thread& t : threads)
    t.join();
  EXPECT_EQ(wrong, 0);
  ASSERT_EQ(numbers.size(), 2000U);
  EXPECT_EQ(*numbers.begin(), 1U);
  EXPECT_EQ(*numbers.rbegin(), 2000U);
}

// --- collecting ----------------------------------------------------------------------------------

TEST(result, is_collected_once) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t a = submit(context, p.symbol("same"), std::uint64_t{1});
  EXPECT_EQ(collect(context, a), ok(1));
  EXPECT_EQ(collect(context, a).state, VEO_COMMAND_ERROR);
  EXPECT_EQ(peek(context, a).state, VEO_COMMAND_ERROR);

  const std::uint64_t b = submit(context, p.symbol("same"), std::uint64_t{2});
  outcome o;
  ASSERT_TRUE(eventually([&] { return (o = peek(context, b)).state != VEO_COMMAND_UNFINISHED; }));
  EXPECT_EQ(o, ok(2));
  EXPECT_EQ(peek(context, b).state, VEO_COMMAND_ERROR);
  EXPECT_EQ(collect(context, b).state, VEO_COMMAND_ERROR);
}

TEST(result, is_an_error_for_unknown_requests) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t a = submit(context, p.symbol("same"), std::uint64_t{1});
  for (const std::uint64_t request : {std::uint64_t{0}, a + 1, a + 1000, ~std::uint64_t{0}}) {
    EXPECT_EQ(peek(context, request).state, VEO_COMMAND_ERROR) << request;
    EXPECT_EQ(collect(context, request).state, VEO_COMMAND_ERROR) << request;
  }
  EXPECT_EQ(collect(context, a), ok(1));
}

TEST(result, belongs_to_its_context_only) {
  process p;
  veo_thr_ctxt* const a = p.open();
  veo_thr_ctxt* const b = p.open();
  const std::uint64_t request = submit(a, p.symbol("same"), std::uint64_t{1});
  EXPECT_EQ(collect(b, request).state, VEO_COMMAND_ERROR);
  EXPECT_EQ(collect(a, request), ok(1));
}

TEST(result, can_be_peeked_at_often_before_the_end) {
  process p;
  veo_thr_ctxt* const context = p.open();
  gate g(p);
  const std::uint64_t waiting = submit(context, p.symbol("wait_at"), g.address());
  const std::uint64_t behind = submit(context, p.symbol("same"), std::uint64_t{8});
  EXPECT_EQ(g.wait_for_kernel(), 1U);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(peek(context, waiting).state, VEO_COMMAND_UNFINISHED);
    ASSERT_EQ(peek(context, behind).state, VEO_COMMAND_UNFINISHED);
  }
  g.open(9);
  EXPECT_EQ(collect(context, behind), ok(8));
  // Earlier requests have also ended.
  EXPECT_EQ(peek(context, waiting), ok(9));
}

TEST(result, is_waited_for_by_one_thread_while_another_submits) {
  process p;
  veo_thr_ctxt* const context = p.open();
  gate g(p);
  const std::uint64_t waiting = submit(context, p.symbol("wait_at"), g.address());
  outcome o;
  std::thread waiter([&] { o = collect(context, waiting); });
  const std::uint64_t behind = submit(context, p.symbol("same"), std::uint64_t{8});
  EXPECT_EQ(peek(context, behind).state, VEO_COMMAND_UNFINISHED);
  g.open(7);
  waiter.join();
  EXPECT_EQ(o, ok(7));
  EXPECT_EQ(collect(context, behind), ok(8));
}

TEST(result, can_be_collected_in_any_order) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t same = p.symbol("same");
  std::vector<std::uint64_t> requests;
  for (std::uint64_t i = 0; i < 1000; ++i)
    requests.push_back(submit(context, same, i));
  for (std::uint64_t i = 1000; i-- > 500;)
    ASSERT_EQ(collect(context, requests[i]), ok(i));
  // Collect the rest in a shuffled order: 211 and 500 have no common divisor.
  for (std::uint64_t n = 0; n < 500; ++n) {
    const std::uint64_t i = n * 211 % 500;
    ASSERT_EQ(collect(context, requests[i]), ok(i));
  }
}

TEST(result, a_hundred_thousand_outstanding) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const bounded b("100,000 calls", std::chrono::seconds(100));
  const std::uint64_t count = p.symbol("count");
  const arguments none;
  constexpr std::uint64_t calls = 100000;
  for (std::uint64_t i = 1; i <= calls; ++i)
    ASSERT_EQ(veo_call_async(context, count, none.get()), i);
  outcome o;
  for (std::uint64_t i = calls; i >= 1; --i) {
    o.state = veo_call_wait_result(context, i, &o.value);
    ASSERT_EQ(o, ok(i));
  }
}

TEST(result, a_hundred_thousand_outstanding_behind_a_kernel_that_waits) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const bounded b("100,000 calls", std::chrono::seconds(100));
  const std::uint64_t count = p.symbol("count");
  const arguments none;
  gate g(p);
  ASSERT_EQ(submit(context, p.symbol("wait_at"), g.address()), 1U);
  constexpr std::uint64_t calls = 100000;
  for (std::uint64_t i = 1; i <= calls; ++i)
    ASSERT_EQ(veo_call_async(context, count, none.get()), i + 1);
  EXPECT_EQ(peek(context, calls + 1).state, VEO_COMMAND_UNFINISHED);
  EXPECT_EQ(p.call("counted"), 0U);
  g.open();
  EXPECT_EQ(collect(context, calls + 1), ok(calls));
  EXPECT_EQ(collect(context, 2), ok(1));
}

TEST(result, that_was_left_long_ago_can_be_collected_yet) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t same = p.symbol("same");
  constexpr std::uint64_t left = 30000;
  for (std::uint64_t i = 1; i <= left; ++i)
    ASSERT_EQ(submit(context, same, scrambled(i)), i);
  veo_context_sync(context);
  // Submit and collect other requests meanwhile.
  for (std::uint64_t i = 0; i < 3000; ++i)
    ASSERT_EQ(call(context, same, i), ok(i));
  // Collect in a shuffled order: 7919 is a prime.
  for (std::uint64_t n = 0; n < left; ++n) {
    const std::uint64_t i = n * 7919 % left + 1;
    ASSERT_EQ(peek(context, i), ok(scrambled(i)));
    ASSERT_EQ(collect(context, i), error);
  }
  EXPECT_EQ(call(context, same, std::uint64_t{1}), ok(1));
}

TEST(result, that_nobody_collects_takes_little_memory) {
  if (under_sanitizer) return; // sanitizers keep memory of their own
  const auto resident_kib = [] {
    std::ifstream status("/proc/self/status");
    std::string word;
    while (status >> word && word != "VmRSS:") {
    }
    std::size_t kib = 0;
    status >> kib;
    return kib;
  };
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t count = p.symbol("count");
  const arguments none;
  // Submit no more than the lane holds: queued requests take memory, too.
  constexpr std::size_t at_once = 1000;
  const auto collect_one_in_many = [&](std::size_t calls) {
    std::uint64_t last = 0;
    for (std::size_t i = 1; i <= calls; ++i) {
      last = veo_call_async(context, count, none.get());
      if (i % at_once != 0) continue;
      ASSERT_EQ(collect(context, last), ok(last));
    }
  };
  collect_one_in_many(20 * at_once);
  const std::size_t before = resident_kib();
  constexpr std::size_t calls = 300 * at_once;
  collect_one_in_many(calls);
  constexpr std::size_t max_bytes_each = 32;
  EXPECT_LT(resident_kib(), before + calls * max_bytes_each / 1024);
}

TEST(result, is_dropped_with_its_context) {
  process p;
  const std::uint64_t same = p.symbol("same");
  for (int round = 0; round < 3; ++round) {
    veo_thr_ctxt* const context = p.open();
    for (std::uint64_t i = 1; i <= 2000; ++i)
      ASSERT_EQ(submit(context, same, i), i);
    EXPECT_EQ(collect(context, 1000), ok(1000));
    const bounded b("veo_context_close");
    EXPECT_EQ(veo_context_close(context), 0);
    // A new context, perhaps at the same address, has none of the results.
    veo_thr_ctxt* const next = p.open();
    EXPECT_EQ(peek(next, 1).state, VEO_COMMAND_ERROR);
    EXPECT_EQ(submit(next, same, std::uint64_t{7}), 1U);
    EXPECT_EQ(collect(next, 1), ok(7));
    EXPECT_EQ(veo_context_close(next), 0);
  }
}

TEST(result, can_be_collected_by_several_threads) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t same = p.symbol("same");
  for (std::uint64_t i = 1; i <= 4000; ++i)
    ASSERT_EQ(submit(context, same, i), i);
  // All threads collect all results; one thread gets each.
  std::atomic<std::uint64_t> sum{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 1; i <= 4000; ++i) {
        const outcome o = collect(context, i);
        if (o.state == VEO_COMMAND_OK && o.value == i) {
          sum += i;
        } else if (o.state != VEO_COMMAND_ERROR) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& t : threads)
    t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(sum, 4000U * 4001 / 2);
}

TEST(result, comes_from_each_of_several_threads_contexts) {
  process p;
  const std::uint64_t add = p.symbol("add");
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < 4; ++t) {
    veo_thr_ctxt* const context = t == 0 ? p.main() : p.open();
    threads.emplace_back([&, t, context] {
      for (std::int64_t i = 0; i < 1000; ++i) {
        if (call(context, add, t, i) == ok(word(t + i))) ++right;
      }
    });
  }
  for (std::thread& t : threads)
    t.join();
  EXPECT_EQ(right, 4000);
}

TEST(result, reaches_each_thread_with_a_synchronous_call) {
  process p;
  const std::uint64_t add = p.symbol("add");
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t i = 0; i < 500; ++i) {
        const arguments a(t, i);
        if (p.call_with(add, a) == word(t + i)) ++right;
      }
    });
  }
  for (std::thread& t : threads)
    t.join();
  EXPECT_EQ(right, 2000);
}

} // namespace
} // namespace veo_test
