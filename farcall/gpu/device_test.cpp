// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/stop_token.hpp>
#include <tests/conformance/device.hpp>

#include <barrier>
#include <stop_token>

#include <sched.h>

namespace farcall::device_tests {

// ---- for emulated devices only

inline std::atomic<int> posted_there{0};
inline void count_post() { ++posted_there; }
inline void throw_a_number() { throw 42; }

INSTANTIATE_TEST_SUITE_P(emulated, device_test,
                         ::testing::Values("cuda-emulated:0?idle_ms=1",
                                           "cuda-emulated:0?workers=2&threads=3&idle_ms=1"));

// Teams of 32 threads, like a warp: the smallest team of a GPU.
INSTANTIATE_TEST_SUITE_P(emulated_warp, device_team_test,
                         ::testing::Values("cuda-emulated:0?threads=32"));

// ---- several devices, and jobs
// -------------------------------------------------------------------

TEST(devices, are_called_by_more_threads_than_they_have_lanes) {
  const job all(test::with_targets("cuda-emulated:0?idle_ms=1"));
  const node& device = all.targets()[0];
  constexpr int count = 12; // the device has eight lanes
  std::barrier meeting(count);
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(sync(device, device_fn<add>, i, 1.0), i + 1.0);
        meeting.arrive_and_wait(); // so that all have lanes at the same time
      }
    });
  }
  for (std::thread& t : threads)
    t.join();
}

// A thread's lanes are kept for later threads while there are other free ones.
TEST(devices, give_back_lanes_of_threads_that_have_ended) {
  const job all(test::with_targets("cuda-emulated:0?idle_ms=1"));
  const node& device = all.targets()[0];
  std::barrier meeting(8);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      EXPECT_EQ(sync(device, device_fn<add>, 1.0, 1.0), 2.0);
      meeting.arrive_and_wait();
    });
  }
  for (std::thread& t : threads)
    t.join();
  std::vector<lane> lanes;
  for (int i = 0; i < 7; ++i) { // this thread has another one now
    lanes.emplace_back(device);
    EXPECT_EQ(sync(lanes.back(), device_fn<add>, i, 1.0), i + 1.0);
  }
  EXPECT_EQ(sync(device, device_fn<add>, 1.0, 1.0), 2.0);
}

// The worker may not have read the closing notices yet.
TEST(devices, give_back_lanes_that_were_closed) {
  const job all(test::with_targets("cuda-emulated:0?idle_ms=1"));
  const node& device = all.targets()[0];
  for (int round = 0; round < 50; ++round) {
    std::vector<lane> lanes;
    for (int i = 0; i < 8; ++i) {
      lanes.emplace_back(device);
      EXPECT_EQ(sync(lanes.back(), device_fn<add>, i, 1.0), i + 1.0);
    }
    EXPECT_THAT(text_thrown_by<error>([&] { lanes.emplace_back(device); }),
                HasSubstr("no lane left"));
  }
}

// Regression: the end of another node made the device's transport accept no lanes any more.
TEST(devices, call_the_host_first_after_another_node_has_gone) {
  for (const bool has_failed : {false, true}) {
    job all(test::with_targets("shm,cuda-emulated:0,cuda-emulated:1"));
    const std::vector<node> nodes = all.targets();
    if (has_failed) {
      device::give_up(nodes[2]);
      EXPECT_THROW(sync(nodes[2], device_fn<add>, 1.0, 2.0), node_failed);
    } else {
      all.remove(nodes[0]);
    }
    EXPECT_EQ(sync(nodes[1].within(test::wait_limit), device_fn<square_there>, 4), 16);
  }
}

TEST(devices, run_posts_of_closed_lanes_before_the_job_ends) {
  for (int round = 0; round < 20; ++round) {
    posted_there = 0;
    {
      const job all(test::with_targets("cuda-emulated:0?idle_ms=1"));
      const lane l(all.targets()[0]);
      for (int i = 0; i < 100; ++i)
        post(l, device_fn<count_post>);
    }
    ASSERT_EQ(posted_there.load(), 100) << round;
  }
}

// Either the copy or the job may notice the end first.
TEST(devices, that_are_given_up_end_copies_with_node_failed) {
  for (int round = 0; round < 20; ++round) {
    const job all(test::with_targets("cuda-emulated:0"));
    const node& device = all.targets()[0];
    const auto memory = device.allocate<std::uint8_t>(1 << 20);
    const std::vector<std::uint8_t> bytes(1 << 20);
    device::give_up(device);
    EXPECT_THROW(put_sync(bytes, memory), node_failed);
  }
}

TEST(devices, free_memory_of_a_thread_that_has_no_lane) {
  const job all(test::with_targets("cuda-emulated:0"));
  const node& device = all.targets()[0];
  std::vector<lane> lanes;
  for (int i = 0; i < 8; ++i)
    lanes.emplace_back(device);
  for (int i = 0; i < 20; ++i) // 2 GB in all, while the device has 1 GiB
    EXPECT_EQ(device.allocate<std::uint8_t>(100 << 20).size(), 100U << 20);
}

TEST(devices, fail_by_any_exception_thrown_there) {
  const job all(test::with_targets("cuda-emulated:0"));
  const node& device = all.targets()[0];
  EXPECT_THAT(text_thrown_by<node_failed>([&] { sync(device, device_fn<throw_a_number>); }),
              HasSubstr("no std::exception"));
}

TEST(devices, refuse_empty_grids) {
  const job all(test::with_targets("cuda-emulated:0"));
  const node& device = all.targets()[0];
  for (const grid& shape : {grid{.blocks = 0}, grid{.threads = 0}, grid{.threads = 1025}}) {
    EXPECT_THAT(
        text_thrown_by<remote_error>([&] { async(device, shape, device_fn<nothing>).get(); }),
        HasSubstr("1 to 1024 threads"));
  }
}

TEST(devices, are_mixed_with_processes) {
  job all(test::with_targets("shm,cuda-emulated:0,shm,cuda-emulated:1?name=second"));
  ASSERT_EQ(all.targets().size(), 4U);
  EXPECT_EQ(all.targets()[3].name(), "second");
  for (const node& n : all.targets())
    EXPECT_EQ(sync(n, device_fn<add>, 20.0, n.id()), 20.0 + n.id());
  EXPECT_FALSE(device::is_device(all.targets()[0]));
  EXPECT_TRUE(device::is_device(all.targets()[1]));

  // Copies from one device to the other, both ways.
  std::vector<std::uint32_t> values(50'000, 7);
  const auto there = all.targets()[0].allocate<std::uint32_t>(values.size());
  const auto on_device = all.targets()[1].allocate<std::uint32_t>(values.size());
  const auto on_other = all.targets()[3].allocate<std::uint32_t>(values.size());
  put(values, there).get();
  copy(there, on_device).get();
  copy(on_device, on_other).get();
  copy(on_other, there).get();
  std::vector<std::uint32_t> back(values.size());
  get(there, back).get();
  EXPECT_EQ(back, values);

  // In place, like GPUs that are peers.
  const auto number = all.targets()[1].allocate<double>(1);
  put(std::vector<double>{7.0}, number).get();
  EXPECT_EQ(sync(all.targets()[3], device_fn<value_at>, number.span().address()), 7.0);
}

TEST(devices, that_fail_end_their_own_calls_with_the_reason) {
  for (const char* targets :
       {"cuda-emulated:0,cuda-emulated:1,shm", "cuda-emulated:0?threads=3,cuda-emulated:1,shm"}) {
    job all(test::with_targets(targets));
    const node& device = all.targets()[0];
    const auto memory = device.allocate<double>(10);
    EXPECT_EQ(sync(device, device_fn<add>, 1.0, 2.0), 3.0);
    future<void> failing = async(device, device_fn<trap>);
    const std::string why = text_thrown_by<node_failed>([&] { failing.get(); });
    EXPECT_THAT(why, AllOf(HasSubstr("node 1"), HasSubstr("cuda-emulated"),
                           HasSubstr("illegal memory access")));
    EXPECT_FALSE(device.alive());
    EXPECT_THROW((void)sync(device, device_fn<add>, 1.0, 2.0), node_failed);
    EXPECT_THROW((void)device.allocate<double>(10), node_failed);
    std::vector<double> values(10);
    EXPECT_THROW(put(values, memory).get(), node_failed);
    EXPECT_EQ(sync(all.targets()[1], device_fn<add>, 1.0, 2.0), 3.0);
    EXPECT_EQ(sync(all.targets()[2], device_fn<add>, 1.0, 2.0), 3.0);
    job next(test::with_targets("cuda-emulated:0"));
    EXPECT_EQ(sync(next.targets()[0], device_fn<add>, 1.0, 2.0), 3.0);
  }
}

TEST(devices, report_a_grid_that_fails) {
  job all(test::with_targets("cuda-emulated:0"));
  future<void> failing = async(all.targets()[0], grid{.blocks = 3}, device_fn<trap>);
  const std::string why = text_thrown_by<node_failed>([&] { failing.get(); });
  EXPECT_THAT(why, HasSubstr("illegal memory access"));
}

FARCALL_HOST_DEVICE inline void call_from_grid() { device::post_host(fn<count_one>); }
FARCALL_HOST_DEVICE inline void fail_in_grid() { device::fail("no"); }

TEST(devices, fail_if_their_grid_calls_the_host) {
  for (const int which : {0, 1}) {
    job all(test::with_targets("cuda-emulated:0"));
    const node& device = all.targets()[0];
    future<void> failing = which == 0 ? async(device, grid{}, device_fn<call_from_grid>)
                                      : async(device, grid{}, device_fn<fail_in_grid>);
    EXPECT_THAT(text_thrown_by<node_failed>([&] { failing.get(); }),
                HasSubstr("launched function"));
  }
}

TEST(devices, keep_memory_that_a_launch_still_uses) {
  job all(test::with_targets("cuda-emulated:0"));
  const node& device = all.targets()[0];
  may_end = false;
  auto first = device.allocate<std::byte>(900 << 20);
  const std::uint64_t address = first.span().address();
  future<void> endless = async(device, grid{}, device_fn<run_until_allowed>);
  first.reset();
  sync(device, pure_fn<nothing>); // after which the memory is released
  const auto small = device.allocate<std::byte>(1 << 20);
  EXPECT_NE(small.span().address(), address);
  std::atomic<bool> is_there{false};
  std::thread waiting([&] {
    EXPECT_EQ(device.allocate<std::byte>(900 << 20).span().address(), address);
    is_there = true;
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(is_there);
  may_end = true;
  waiting.join();
  endless.get();
}

TEST(devices, quiesce_for_one_caller_at_a_time) {
  job all(test::with_targets("cuda-emulated:0?workers=2&idle_ms=1000"));
  const node& device = all.targets()[0];
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        if (t % 2 == 0) device::quiesce(device, test::wait_limit);
        EXPECT_EQ(sync(device, device_fn<add>, t, i), t + i);
        // Mapping new memory makes the device idle, too.
        if (i % 25 == 0) (void)device.allocate<std::byte>(100 << 20);
      }
    });
  }
  for (std::thread& t : threads)
    t.join();
}

TEST(devices, memory_of_another_node_is_not_used_in_place) {
  job all(test::with_targets("cuda-emulated:0,shm"));
  const auto elsewhere = all.targets()[1].allocate<std::uint64_t>(10);
  const std::string why = text_thrown_by<node_failed>(
      [&] { (void)sync(all.targets()[0], team_fn<square_all>, elsewhere.span()); });
  EXPECT_THAT(why, AllOf(HasSubstr("memory of node 2"), HasSubstr("node 1")));
}

TEST(devices, that_are_emulated_export_no_memory) {
  job all(test::with_targets("cuda-emulated:0,shm"));
  const node& device = all.targets()[0];
  const auto memory = device.allocate<double>(10);
  EXPECT_THAT(text_thrown_by<error>([&] { (void)device::export_memory(device, memory.span()); }),
              HasSubstr("cannot be exported"));
  const auto elsewhere = all.targets()[1].allocate<double>(10);
  EXPECT_THAT(text_thrown_by<error>([&] { (void)device::export_memory(device, elsewhere.span()); }),
              AllOf(HasSubstr("belongs to node 2"), HasSubstr("not to node 1")));
}

TEST(devices, that_are_emulated_refuse_cuda_streams) {
  job all(test::with_targets("cuda-emulated:0,shm"));
  int none = 0;
  EXPECT_THAT(text_thrown_by<remote_error>([&] { device::when(all.targets()[0], &none).get(); }),
              HasSubstr("emulated"));
  EXPECT_THAT(text_thrown_by<remote_error>([&] { device::wait_event(all.targets()[0], &none); }),
              HasSubstr("emulated"));
  device::wait_event(all.targets()[0], nullptr);
  const lane own(all.targets()[0]);
  device::wait_event(own, nullptr);
  EXPECT_EQ(sync(all.targets()[0], device_fn<add>, 1.0, 2.0), 3.0);
  EXPECT_EQ(sync(own, device_fn<add>, 1.0, 2.0), 3.0);
  EXPECT_THAT(text_thrown_by<error>([&] { (void)device::when(all.targets()[1], nullptr); }),
              AllOf(HasSubstr("node 2"), HasSubstr("no device")));
}

// Values that are too large are refused at once, or by the device, and the call does not wait. Not
// compiled for GPUs: values of this size keep CUDA's compiler busy without end.
struct large_block {
  std::array<std::byte, 1'000'000> bytes;
};
FARCALL_HOST_DEVICE inline std::size_t first_of(const large_block& b) {
  return static_cast<std::size_t>(b.bytes[0]);
}
FARCALL_HOST_DEVICE inline large_block long_result() { return {}; }

TEST(devices, refuse_arguments_and_results_that_are_too_long) {
  job all(test::with_targets("cuda-emulated:0,shm"));
  const node& device = all.targets()[0];
  const std::string arguments =
      text_thrown_by<error>([&] { (void)sync(device, device_fn<first_of>, large_block{}); });
  EXPECT_THAT(arguments, AllOf(HasSubstr("node 1"), HasSubstr("1000000"), HasSubstr("lane_bytes")));
  const std::string result =
      text_thrown_by<remote_error>([&] { (void)sync(device, device_fn<long_result>); });
  EXPECT_THAT(result, HasSubstr("lane_bytes"));
  EXPECT_EQ(sync(device, device_fn<add>, 1.0, 2.0), 3.0);
  // Processes accept them.
  EXPECT_EQ(sync(all.targets()[1], device_fn<first_of>, large_block{}), 0U);
}

TEST(devices, stuck_in_a_call_can_be_given_up) {
  may_end = false;
  {
    job_options o = test::with_targets("cuda-emulated:0");
    o.stop_timeout = 50ms;
    job all(o);
    const node& device = all.targets()[0];
    has_begun = false;
    future<void> endless = async(device, device_fn<run_until_allowed>);
    // A call that is late before it has begun would not run at all.
    ASSERT_TRUE(test::eventually([] { return has_begun.load(); }));
    EXPECT_THROW(endless.within(20ms).get(), timeout);
    EXPECT_THAT(text_thrown_by<timeout>([&] { device::quiesce(device, 20ms); }),
                AllOf(HasSubstr("node 1"), HasSubstr("not idle")));
    device::give_up(device);
    EXPECT_THAT(
        text_thrown_by<node_failed>([&] { async(device, device_fn<run_until_allowed>).get(); }),
        HasSubstr("given up"));
  }
  may_end = true;
}

TEST(devices, stuck_in_a_call_can_be_diagnosed) {
  may_end = false;
  job all(test::with_targets("cuda-emulated:0?workers=2&idle_ms=60000"));
  const node& device = all.targets()[0];
  const lane busy(device);
  sync(busy, device_fn<sum_of_squares>, 3);
  future<void> endless = async(busy, device_fn<run_until_allowed>);
  ASSERT_TRUE(test::eventually(
      [&] { return diagnosis_of(device).find(": sends (open): 3 written") != std::string::npos; }));
  const future<void> behind = async(busy, device_fn<nothing>);
  // Poll, since the thread may be in another state at that moment.
  std::string text;
  EXPECT_TRUE(test::eventually([&] {
    text = diagnosis_of(device);
    return text.find("a thread is about to") == std::string::npos;
  }));
  EXPECT_THAT(text, HasSubstr("worker 0 runs, told to serve, lane mask 1; "));
  EXPECT_THAT(text, HasSubstr("worker 1 "));
  EXPECT_THAT(text, HasSubstr("lane 0 of worker 0: sends (open): 4 written, the device tells of "));
  EXPECT_THAT(text, HasSubstr("; receives (open): 1 read, the next one is not there\n"));
  EXPECT_THAT(text, HasSubstr("lane of calls to the host 0 of worker 0: "));
  EXPECT_THAT(text, HasSubstr("threads of workers: "));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("lane 1 "))) << "nobody uses it";
  may_end = true;
  endless.get();
}

TEST(devices, get_no_stop_requests) {
  may_end = false;
  job all(test::with_targets("cuda-emulated:0"));
  const node& device = all.targets()[0];
  std::stop_source source;
  EXPECT_EQ(sync(device.with(source.get_token()), device_fn<add>, 1.0, 2.0), 3.0);
  future<void> f = async(device.with(source.get_token()), device_fn<run_until_allowed>);
  source.request_stop();
  EXPECT_THROW(f.get(), cancelled);
  may_end = true;
  EXPECT_EQ(sync(device, device_fn<add>, 1.0, 2.0), 3.0) << "behind it";
}

TEST(devices, stuck_in_a_call_let_their_job_end) {
  may_end = false;
  {
    job_options o = test::with_targets("cuda-emulated:0");
    o.stop_timeout = 50ms;
    job all(o);
    post(all.targets()[0], device_fn<run_until_allowed>);
  }
  may_end = true;
}

// A launch that never ends must not block the end of the job.
TEST(devices, stuck_in_a_launch_can_be_given_up) {
  for (const bool is_given_up : {true, false}) {
    may_end = false;
    {
      job_options o = test::with_targets("cuda-emulated:0");
      o.stop_timeout = 50ms;
      job all(o);
      const node& device = all.targets()[0];
      const future<void> endless = async(device, grid{}, device_fn<run_until_allowed>);
      sync(device, pure_fn<nothing>);
      if (is_given_up) device::give_up(device);
    }
    may_end = true;
  }
}

TEST(devices, need_code_for_gpus_at_the_start) {
  EXPECT_THAT(
      text_thrown_by<start_failed>([] { job all(test::with_targets("cuda:0")); }),
      AllOf(HasSubstr("node 1"), HasSubstr("no code for GPUs"), HasSubstr("farcall_cuda_target")));
}

TEST(devices, are_distinguished_from_other_nodes) {
  job all(test::with_targets("shm"));
  EXPECT_THAT(text_thrown_by<error>([&] { device::quiesce(all.targets()[0]); }),
              AllOf(HasSubstr("node 1"), HasSubstr("no device")));
}

// Any calling thread may start a worker, whose threads must not inherit its affinity.
FARCALL_HOST_DEVICE std::int32_t count_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1;
}

int first_of(const cpu_set_t& set) {
  std::size_t i = 0;
  while (!CPU_ISSET(i, &set))
    ++i;
  return static_cast<int>(i);
}

TEST(devices, that_are_emulated_run_on_the_chosen_processors) {
  const std::int32_t here = count_processors();
  job free(test::with_targets("cuda-emulated:0"));
  cpu_set_t before;
  CPU_ZERO(&before);
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  const int first = first_of(before);
  std::thread bound([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(first), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(sync(free.targets().front(), device_fn<count_processors>), here);
  });
  bound.join();
  job pinned(test::with_targets("cuda-emulated:0?cpu=" + std::to_string(first)));
  EXPECT_EQ(sync(pinned.targets().front(), device_fn<count_processors>), 1);
  EXPECT_THAT(text_thrown_by<start_failed>(
                  [] { job none(test::with_targets("cuda-emulated:0?cpu=4000")); }),
              HasSubstr("4000"));
}

TEST(devices, functions_for_devices_run_on_ordinary_nodes) {
  job all(test::with_targets("shm"));
  const node& target = all.targets().front();
  EXPECT_EQ(sync(target, device_fn<sum_of_squares>, 10), 385);
  const auto e = thrown_by<remote_error>([&] { (void)sync(target, device_fn<refuse>, -5); });
  ASSERT_TRUE(e.has_value());
  EXPECT_EQ(e->type_name(), "farcall::device_error");
  EXPECT_EQ(e->text(), "a negative number");
}

TEST(devices, cannot_be_used_by_targets_of_their_host) {
  job all(test::with_targets("shm,cuda-emulated:0"));
  const std::string why = text_thrown_by<remote_error>([&] {
    (void)sync(all.targets()[0], [] { return sync(node_at(2), device_fn<add>, 1.0, 2.0); });
  });
  EXPECT_THAT(why, AllOf(HasSubstr("node 2"), HasSubstr("host")));
}

} // namespace farcall::device_tests
