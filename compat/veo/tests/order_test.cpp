// SPDX-License-Identifier: Apache-2.0
#include "exception_support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace veo_test {
namespace {

/// Submits a function object of this program, which must live until it has run.
std::uint64_t submit_here(veo_thr_ctxt* context, std::function<std::uint64_t()>& function) {
  return veo_call_async_vh(
      context,
      [](void* argument) { return (*static_cast<std::function<std::uint64_t()>*>(argument))(); },
      &function);
}

/// Returns the values that kernels have recorded, in order.
std::vector<std::uint64_t> trace_of(process& p) {
  std::vector<std::uint64_t> trace(p.read<std::uint64_t>(p.symbol("traced")));
  p.read_bytes(trace.data(), p.symbol("trace"), trace.size() * 8);
  return trace;
}

// --- within a context ----------------------------------------------------------------------------

TEST(order, calls_run_one_after_the_other) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t note = p.symbol("note");
  std::vector<std::uint64_t> expected;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    ASSERT_NE(submit(context, note, scrambled(i)), VEO_REQUEST_ID_INVALID);
    expected.push_back(scrambled(i));
  }
  veo_context_sync(context);
  EXPECT_EQ(trace_of(p), expected);
}

TEST(order, copies_and_calls_take_turns) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t word = p.allocate(8);
  const std::uint64_t load = p.symbol("load_word");
  const std::uint64_t store = p.symbol("store_late");
  std::vector<std::uint64_t> written(20);
  std::vector<std::uint64_t> read(20);
  std::vector<std::uint64_t> loads;
  std::vector<std::uint64_t> stores;
  for (std::uint64_t i = 0; i < 20; ++i) {
    written[i] = 100 + i;
    ASSERT_NE(veo_async_write_mem(context, word, &written[i], 8), VEO_REQUEST_ID_INVALID);
    loads.push_back(submit(context, load, word));
    stores.push_back(submit(context, store, word, 200 + i));
    ASSERT_NE(veo_async_read_mem(context, &read[i], word, 8), VEO_REQUEST_ID_INVALID);
  }
  {
    const bounded b("veo_context_sync");
    veo_context_sync(context);
  }
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(collect(context, loads[i]), ok(100 + i));
    EXPECT_EQ(collect(context, stores[i]), ok(200 + i));
    EXPECT_EQ(read[i], 200 + i);
  }
}

TEST(order, large_copies_and_calls_take_turns) {
  process p;
  veo_thr_ctxt* const context = p.open();
  constexpr std::size_t size = std::size_t{9} << 20;
  const std::uint64_t address = p.allocate(size);
  const std::uint64_t sum = p.symbol("sum_bytes");
  const std::vector<unsigned char> ones(size, 1);
  const std::vector<unsigned char> twos(size, 2);
  std::vector<unsigned char> got_ones(size);
  std::vector<unsigned char> got_twos(size);
  ASSERT_NE(veo_async_write_mem(context, address, ones.data(), size), VEO_REQUEST_ID_INVALID);
  const std::uint64_t first = submit(context, sum, address, std::uint64_t{size});
  ASSERT_NE(veo_async_read_mem(context, got_ones.data(), address, size), VEO_REQUEST_ID_INVALID);
  ASSERT_NE(veo_async_write_mem(context, address, twos.data(), size), VEO_REQUEST_ID_INVALID);
  const std::uint64_t second = submit(context, sum, address, std::uint64_t{size});
  const std::uint64_t last = veo_async_read_mem(context, got_twos.data(), address, size);
  EXPECT_EQ(collect(context, last), ok(0));
  EXPECT_EQ(collect(context, first), ok(size));
  EXPECT_EQ(collect(context, second), ok(2 * size));
  EXPECT_TRUE(got_ones == ones);
  EXPECT_TRUE(got_twos == twos);
}

TEST(order, a_copy_waits_for_the_kernel_before_it) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t variable = p.symbol("variable");
  gate g(p);
  const std::uint64_t waiting = submit(context, p.symbol("wait_at"), g.address());
  const std::uint64_t one = 1;
  const std::uint64_t written = veo_async_write_mem(context, variable, &one, 8);
  (void)g.wait_for_kernel();
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(p.read<std::uint64_t>(variable), 42U);
  EXPECT_EQ(peek(context, written).state, VEO_COMMAND_UNFINISHED);
  g.open();
  EXPECT_EQ(collect(context, written), ok(0));
  EXPECT_EQ(p.read<std::uint64_t>(variable), 1U);
  EXPECT_EQ(collect(context, waiting), ok(1));
}

TEST(order, blocking_calls_follow_requests_of_the_main_context) {
  process p;
  const std::uint64_t variable = p.symbol("variable");
  const std::uint64_t store = p.symbol("store_late");
  const std::uint64_t load = p.symbol("load_word");
  for (std::uint64_t i = 1; i <= 10; ++i) {
    ASSERT_NE(submit(p.main(), store, variable, i), VEO_REQUEST_ID_INVALID);
    ASSERT_EQ(p.read<std::uint64_t>(variable), i);
    ASSERT_NE(submit(p.main(), store, variable, i + 100), VEO_REQUEST_ID_INVALID);
    const arguments a(variable);
    ASSERT_EQ(p.call_with(load, a), i + 100);
    ASSERT_NE(submit(p.main(), store, variable, i + 200), VEO_REQUEST_ID_INVALID);
    p.write(variable, i + 300);
    ASSERT_EQ(call(p.main(), load, variable), ok(i + 300));
  }
}

TEST(order, veo_lets_memory_calls_pass_a_kernel) {
  const environment_variable order("FARCALL_VEO_ORDER", "veo");
  process p;
  veo_thr_ctxt* const context = veo_context_open(p.get());
  ASSERT_EQ(context, p.main());
  const std::uint64_t calls = p.allocate(16);
  p.write(calls, std::uint64_t{0});
  ASSERT_EQ(call(context, p.symbol("set_calls"), calls), ok(0));
  const std::uint64_t serving = submit(context, p.symbol("serve_calls"));
  const bounded b("calls over memory while a kernel runs");
  for (std::uint64_t i = 1; i <= 20; ++i) {
    p.write(calls + 8, i);
    p.write(calls, std::uint64_t{1});
    ASSERT_TRUE(eventually([&] { return p.read<std::uint64_t>(calls) == 0; }));
    ASSERT_EQ(p.read<std::uint64_t>(calls + 8), 2 * i);
  }
  // Other functions without a context pass it, too.
  p.free(p.allocate(std::size_t{1} << 20));
  EXPECT_NE(p.symbol("constructed"), 0U);
  EXPECT_NE(p.library("shadow"), 0U);
  std::vector<unsigned char> large(std::size_t{3} << 20, 5);
  const std::uint64_t there = p.allocate(large.size());
  p.write_bytes(there, large.data(), large.size());
  EXPECT_EQ(peek(context, serving).state, VEO_COMMAND_UNFINISHED);
  // Requests of the context keep their order.
  std::uint64_t flag = 5;
  const std::uint64_t behind = veo_async_read_mem(context, &flag, calls, sizeof flag);
  EXPECT_EQ(peek(context, behind).state, VEO_COMMAND_UNFINISHED);
  p.write(calls, std::uint64_t{2});
  EXPECT_EQ(collect(context, serving), ok(20));
  EXPECT_EQ(collect(context, behind), ok(0));
  EXPECT_EQ(flag, 2U);
}

TEST(order, veo_ends_with_the_process) {
  const environment_variable order("FARCALL_VEO_ORDER", "veo");
  process p;
  EXPECT_EQ(call(p.main(), p.symbol("write_nowhere")), exception(SIGSEGV));
  expect_ended(p, {p.main()});
}

TEST(order, is_one_that_there_is) {
  const environment_variable order("FARCALL_VEO_ORDER", "other");
  EXPECT_EQ(veo_proc_create(0), nullptr);
  EXPECT_NE(last_error().find("FARCALL_VEO_ORDER"), std::string::npos) << last_error();
}

// --- functions of this program -------------------------------------------------------------------

TEST(order, a_function_here_sees_what_was_before_it) {
  process p;
  veo_thr_ctxt* const context = p.open();
  std::uint64_t got = 0;
  std::function<std::uint64_t()> function = [&] { return got; };
  for (std::uint64_t i = 1; i <= 20; ++i) {
    ASSERT_NE(submit(context, p.symbol("store_late"), p.symbol("variable"), i),
              VEO_REQUEST_ID_INVALID);
    ASSERT_NE(veo_async_read_mem(context, &got, p.symbol("variable"), 8), VEO_REQUEST_ID_INVALID);
    ASSERT_EQ(collect(context, submit_here(context, function)), ok(i));
  }
}

TEST(order, requests_behind_a_host_function_wait_for_it) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t variable = p.symbol("variable");
  std::uint64_t behind = 0;
  std::uint64_t copied = 0;
  std::atomic<bool> both_submitted{false};
  // Waits, so that the next request could run too early, then writes the value that it must read.
  std::function<std::uint64_t()> function = [&]() -> std::uint64_t {
    if (!eventually([&] { return both_submitted.load(); })) return 0;
    outcome o;
    for (int i = 0; i < 200; ++i) {
      o = peek(context, behind);
      if (o.state != VEO_COMMAND_UNFINISHED) return 0;
      std::this_thread::yield();
    }
    p.write(variable, std::uint64_t{77});
    return 1;
  };
  const std::uint64_t request = submit_here(context, function);
  behind = submit(context, p.symbol("load_word"), variable);
  const std::uint64_t copy = veo_async_read_mem(context, &copied, variable, 8);
  both_submitted = true;
  EXPECT_EQ(collect(context, copy), ok(0));
  EXPECT_EQ(collect(context, request), ok(1));
  EXPECT_EQ(collect(context, behind), ok(77));
  EXPECT_EQ(copied, 77U);
}

TEST(order, a_function_here_runs_though_nobody_waits) {
  process p;
  veo_thr_ctxt* const context = p.open();
  std::atomic<int> done{0};
  std::function<std::uint64_t()> function = [&] { return static_cast<std::uint64_t>(++done); };
  for (int i = 0; i < 10; ++i) {
    ASSERT_NE(submit(context, p.symbol("pause_for"), std::uint64_t{100}), VEO_REQUEST_ID_INVALID);
    ASSERT_NE(submit_here(context, function), VEO_REQUEST_ID_INVALID);
  }
  EXPECT_TRUE(eventually([&] { return done == 10; }));
}

TEST(order, calls_behind_a_function_here_run_though_nobody_waits) {
  process p;
  veo_thr_ctxt* const context = p.open();
  std::function<std::uint64_t()> function = [] { return std::uint64_t{0}; };
  for (int i = 0; i < 10; ++i) {
    ASSERT_NE(submit_here(context, function), VEO_REQUEST_ID_INVALID);
    ASSERT_NE(submit(context, p.symbol("count")), VEO_REQUEST_ID_INVALID);
  }
  EXPECT_TRUE(eventually([&] { return p.call("counted") == 10; }));
}

TEST(order, host_functions_may_wait_for_each_other) {
  process p;
  constexpr int contexts = 8;
  const std::uint64_t same = p.symbol("same");
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0;
  // Returns when all functions have arrived, in each of three rounds.
  std::function<std::uint64_t()> meet = [&]() -> std::uint64_t {
    std::unique_lock lock(mutex);
    const int round = arrived++ / contexts;
    changed.notify_all();
    return changed.wait_for(lock, farcall::test::wait_limit,
                            [&] { return arrived >= (round + 1) * contexts; })
               ? 1
               : 0;
  };
  std::vector<veo_thr_ctxt*> all{p.main()};
  while (all.size() < contexts)
    all.push_back(p.open());
  std::vector<std::vector<std::uint64_t>> requests(contexts);
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < contexts; ++i) {
      requests[i].push_back(submit_here(all[i], meet));
      requests[i].push_back(submit(all[i], same, std::uint64_t{1}));
    }
    for (std::size_t i = 0; i < contexts; ++i) {
      for (const std::uint64_t r : std::exchange(requests[i], {}))
        EXPECT_EQ(collect(all[i], r), ok(1));
    }
  }
}

TEST(order, a_function_here_may_use_other_contexts) {
  process p;
  veo_thr_ctxt* const a = p.open();
  veo_thr_ctxt* const b = p.open();
  const std::uint64_t add = p.symbol("add");
  std::function<std::uint64_t()> function = [&]() -> std::uint64_t {
    const outcome o = call(b, add, std::int64_t{1}, std::int64_t{2});
    return o == ok(3) ? p.call("add", std::int64_t{4}, std::int64_t{5}) : 0;
  };
  EXPECT_EQ(collect(a, submit_here(a, function)), ok(9));
}

TEST(order, a_function_here_may_submit_to_its_own_context) {
  process p;
  veo_thr_ctxt* const context = p.open();
  std::uint64_t submitted = 0;
  std::function<std::uint64_t()> function = [&] {
    return submitted = submit(context, p.symbol("same"), std::uint64_t{5});
  };
  const outcome o = collect(context, submit_here(context, function));
  ASSERT_EQ(o.state, VEO_COMMAND_OK);
  ASSERT_EQ(o.value, submitted);
  EXPECT_EQ(collect(context, submitted), ok(5));
}

// --- between contexts ----------------------------------------------------------------------------

TEST(order, kernels_of_several_contexts_run_at_once) {
  process p;
  const std::uint64_t wait_at = p.symbol("wait_at");
  std::vector<veo_thr_ctxt*> contexts{p.main(), p.open(), p.open(), p.open()};
  veo_thr_ctxt* const way = p.open();
  std::vector<gate> gates;
  std::vector<std::uint64_t> requests;
  for (std::size_t i = 0; i < contexts.size(); ++i)
    gates.emplace_back(p, way);
  for (std::size_t i = 0; i < contexts.size(); ++i)
    requests.push_back(submit(contexts[i], wait_at, gates[i].address()));
  // All kernels run at this point.
  for (gate& g : gates)
    EXPECT_EQ(g.wait_for_kernel(), 1U);
  for (std::size_t i = contexts.size(); i-- > 0;) {
    EXPECT_EQ(peek(contexts[i], requests[i]).state, VEO_COMMAND_UNFINISHED);
    gates[i].open(10 + i);
    EXPECT_EQ(collect(contexts[i], requests[i]), ok(10 + i));
  }
}

TEST(order, copies_go_on_beside_a_kernel_of_another_context) {
  process p;
  veo_thr_ctxt* const kernels = p.open();
  veo_thr_ctxt* const copies = p.open();
  constexpr std::size_t size = std::size_t{32} << 20;
  const std::uint64_t address = p.allocate(size);
  gate g(p);
  const std::uint64_t waiting = submit(kernels, p.symbol("wait_at"), g.address());
  (void)g.wait_for_kernel();
  const std::vector<unsigned char> sent = content(size, 4);
  std::vector<unsigned char> got(size);
  EXPECT_EQ(collect(copies, veo_async_write_mem(copies, address, sent.data(), size)), ok(0));
  EXPECT_EQ(collect(copies, veo_async_read_mem(copies, got.data(), address, size)), ok(0));
  EXPECT_TRUE(got == sent);
  // Blocking copies, too, which use the main context.
  std::ranges::fill(got, 0);
  p.write_bytes(address, sent.data(), size);
  p.read_bytes(got.data(), address, size);
  EXPECT_TRUE(got == sent);
  EXPECT_EQ(peek(kernels, waiting).state, VEO_COMMAND_UNFINISHED);
  g.open();
  EXPECT_EQ(collect(kernels, waiting), ok(1));
}

TEST(order, one_context_does_not_wait_for_another) {
  process p;
  veo_thr_ctxt* const slow = p.open();
  veo_thr_ctxt* const fast = p.open();
  gate g(p);
  const std::uint64_t waiting = submit(slow, p.symbol("wait_at"), g.address());
  for (std::uint64_t i = 0; i < 100; ++i)
    EXPECT_EQ(call(fast, p.symbol("same"), i), ok(i));
  EXPECT_EQ(p.call("same", std::uint64_t{3}), 3U);
  veo_thr_ctxt* const late = p.open();
  EXPECT_EQ(call(late, p.symbol("same"), std::uint64_t{4}), ok(4));
  EXPECT_EQ(veo_context_close(late), 0);
  EXPECT_EQ(peek(slow, waiting).state, VEO_COMMAND_UNFINISHED);
  g.open();
  EXPECT_EQ(collect(slow, waiting), ok(1));
}

// --- veo_context_sync ----------------------------------------------------------------------------

TEST(order, sync_waits_for_all_and_collects_nothing) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const bounded b("veo_context_sync");
  veo_context_sync(context);
  std::vector<std::uint64_t> requests;
  for (std::uint64_t i = 0; i < 10; ++i)
    requests.push_back(submit(context, p.symbol("pause_for"), 1000 + i));
  std::function<std::uint64_t()> function = [] { return std::uint64_t{6}; };
  const std::uint64_t here = submit_here(context, function);
  veo_context_sync(context);
  for (std::uint64_t i = 0; i < 10; ++i)
    EXPECT_EQ(peek(context, requests[i]), ok(1000 + i));
  EXPECT_EQ(peek(context, here), ok(6));
}

TEST(order, sync_waits_for_the_very_first_request) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t request = submit(context, p.symbol("pause_for"), std::uint64_t{20000});
  const bounded b("veo_context_sync");
  veo_context_sync(context);
  EXPECT_EQ(peek(context, request), ok(20000));
}

TEST(order, sync_of_one_context_leaves_another_alone) {
  process p;
  veo_thr_ctxt* const waits = p.open();
  veo_thr_ctxt* const other = p.open();
  gate g(p);
  const std::uint64_t waiting = submit(waits, p.symbol("wait_at"), g.address());
  const std::uint64_t done = submit(other, p.symbol("same"), std::uint64_t{1});
  const bounded b("veo_context_sync");
  veo_context_sync(other);
  EXPECT_EQ(peek(other, done), ok(1));
  EXPECT_EQ(peek(waits, waiting).state, VEO_COMMAND_UNFINISHED);
  g.open();
  veo_context_sync(waits);
  EXPECT_EQ(peek(waits, waiting), ok(1));
}

// --- request blocks ------------------------------------------------------------------------------

TEST(request_block, keeps_the_requests_of_a_thread_together) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t note = p.symbol("note");
  constexpr std::uint64_t per_block = 5;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t block = 0; block < 50; ++block) {
        const bounded b("veo_req_block_begin");
        veo_req_block_begin(context);
        for (std::uint64_t i = 0; i < per_block; ++i) {
          EXPECT_NE(submit(context, note, t * 1000 + block), VEO_REQUEST_ID_INVALID);
          std::this_thread::yield();
        }
        veo_req_block_end(context);
      }
    });
  }
  for (std::thread& t : threads)
    t.join();
  veo_context_sync(context);
  const std::vector<std::uint64_t> trace = trace_of(p);
  ASSERT_EQ(trace.size(), 4 * 50 * per_block);
  for (std::size_t i = 0; i < trace.size(); ++i)
    ASSERT_EQ(trace[i], trace[i - i % per_block]) << i;
}

TEST(request_block, makes_others_wait) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t note = p.symbol("note");
  for (std::uint64_t round = 0; round < 20; ++round) {
    std::atomic<bool> other_is_there{false};
    const bounded b("a request block");
    veo_req_block_begin(context);
    EXPECT_NE(submit(context, note, 10 * round + 1), VEO_REQUEST_ID_INVALID);
    std::thread other([&] {
      other_is_there = true;
      EXPECT_NE(submit(context, note, 10 * round + 3), VEO_REQUEST_ID_INVALID);
    });
    EXPECT_TRUE(eventually([&] { return other_is_there.load(); }));
    for (int i = 0; i < 20; ++i)
      std::this_thread::yield();
    EXPECT_NE(submit(context, note, 10 * round + 2), VEO_REQUEST_ID_INVALID);
    veo_req_block_end(context);
    other.join();
  }
  veo_context_sync(context);
  const std::vector<std::uint64_t> trace = trace_of(p);
  ASSERT_EQ(trace.size(), 60U);
  for (std::uint64_t i = 0; i < 60; ++i)
    EXPECT_EQ(trace[i], i / 3 * 10 + i % 3 + 1);
}

TEST(request_block, may_be_nested) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const std::uint64_t same = p.symbol("same");
  const bounded b("nested request blocks");
  veo_req_block_begin(context);
  veo_req_block_begin(context);
  const std::uint64_t first = submit(context, same, std::uint64_t{1});
  veo_req_block_end(context);
  std::atomic<bool> other_is_done{false};
  std::atomic<std::uint64_t> other_request{0};
  std::thread other([&] {
    other_request = submit(context, same, std::uint64_t{3});
    other_is_done = true;
  });
  for (int i = 0; i < 100; ++i)
    std::this_thread::yield();
  // The outer block is still open.
  EXPECT_FALSE(other_is_done);
  const std::uint64_t second = submit(context, same, std::uint64_t{2});
  veo_req_block_end(context);
  other.join();
  EXPECT_EQ(second, first + 1);
  EXPECT_EQ(other_request, second + 1);
  EXPECT_EQ(collect(context, other_request), ok(3));
}

TEST(request_block, does_not_keep_results_back) {
  process p;
  veo_thr_ctxt* const context = p.open();
  const bounded b("a request block");
  veo_req_block_begin(context);
  const std::uint64_t first = submit(context, p.symbol("same"), std::uint64_t{1});
  EXPECT_EQ(collect(context, first), ok(1));
  std::uint64_t of_other_thread = 0;
  const std::uint64_t second = submit(context, p.symbol("same"), std::uint64_t{2});
  std::thread([&] { of_other_thread = collect(context, second).value; }).join();
  EXPECT_EQ(of_other_thread, 2U);
  veo_req_block_end(context);
}

TEST(request_block, holds_one_context_only) {
  process p;
  veo_thr_ctxt* const a = p.open();
  veo_thr_ctxt* const b = p.open();
  const bounded bound("a request block");
  veo_req_block_begin(a);
  outcome o;
  std::thread([&] { o = call(b, p.symbol("same"), std::uint64_t{1}); }).join();
  EXPECT_EQ(o, ok(1));
  veo_req_block_end(a);
}

} // namespace
} // namespace veo_test
