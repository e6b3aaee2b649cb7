// SPDX-License-Identifier: Apache-2.0

// Tests of devices on a GPU. They skip without one.

#include <tests/conformance/device.hpp>

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cstdlib>

namespace farcall::device_tests {

INSTANTIATE_TEST_SUITE_P(gpu, device_test,
                         ::testing::Values("cuda:0", "cuda:0?workers=2&threads=64&idle_ms=1"));

INSTANTIATE_TEST_SUITE_P(gpu, device_team_test, ::testing::Values("cuda:0"));

class gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_gpu().empty()) GTEST_SKIP() << why_no_gpu();
  }
};

// Operations of CUDA that wait for an idle device wait for the idle timeout at most.
TEST_F(gpu, lets_the_program_use_cuda_while_workers_are_resident) {
  job all(test::with_targets("cuda:0?idle_ms=2"));
  const node& device = all.targets()[0];
  const auto call = [&] { EXPECT_EQ(sync(device, device_fn<add>, 1.0, 2.0), 3.0); };
  void* memory = nullptr;
  call();
  ASSERT_EQ(cudaMalloc(&memory, 64 << 20), cudaSuccess);
  call();
  EXPECT_EQ(cudaMemset(memory, 1, 64 << 20), cudaSuccess);
  call();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  call();
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  void* pinned = nullptr;
  call();
  ASSERT_EQ(cudaHostAlloc(&pinned, 1 << 20, cudaHostAllocDefault), cudaSuccess);
  call();
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  cudaStream_t stream = nullptr;
  call();
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  call();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  call();
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

#ifdef __CUDACC__
// CUDA reads the variable at its first use, by any code of the program.
TEST(gpu_program, has_asked_for_all_hardware_queues) {
  EXPECT_NE(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), nullptr);
}
#endif

/// A stream of the program with work that ends when it is allowed to, and an event after that work.
class slow_work {
 public:
  slow_work() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaLaunchHostFunc(stream_, &wait, &may_end_), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(done_, stream_), cudaSuccess);
  }
  slow_work(const slow_work&) = delete;
  slow_work& operator=(const slow_work&) = delete;
  ~slow_work() {
    end();
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    if (done_ != nullptr) {
      EXPECT_EQ(cudaEventDestroy(done_), cudaSuccess);
    }
  }
  void end() { may_end_ = true; }
  void forget_event() { EXPECT_EQ(cudaEventDestroy(std::exchange(done_, nullptr)), cudaSuccess); }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] cudaEvent_t done() const { return done_; }

 private:
  static void CUDART_CB wait(void* may_end) {
    while (!static_cast<std::atomic<bool>*>(may_end)->load())
      std::this_thread::yield();
  }
  std::atomic<bool> may_end_{false};
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
};

/// Allocates memory first, so that none has to be mapped while a stream is busy.
node warmed(const job& all) {
  const node& device = all.targets()[0];
  (void)device.allocate<std::byte>(1);
  return device;
}

TEST_F(gpu, tells_when_a_stream_of_the_program_is_done) {
  const job all(test::with_targets("cuda:0?idle_ms=1"));
  const node device = warmed(all);
  slow_work slow;
  slow_work slower;
  future<void> last = device::when(device, slower.stream());
  future<void> first = device::when(device, slow.stream());
  // The two streams hold back neither each other nor the lane.
  EXPECT_EQ(sync(device, device_fn<add>, 1.0, 2.0), 3.0);
  sync(device, grid{}, device_fn<nothing>);
  EXPECT_FALSE(first.wait_for(5ms));
  slow.end();
  EXPECT_TRUE(first.wait_for(test::wait_limit));
  first.get();
  EXPECT_FALSE(last.test());
  slower.end();
  last.get();
}

// The worker leaves meanwhile, and is not started before the event.
TEST_F(gpu, holds_calls_and_launches_back_until_an_event) {
  const job all(test::with_targets("cuda:0?idle_ms=1&workers=2"));
  const node device = warmed(all);
  const lane other(device);
  for (int round = 0; round < 5; ++round) {
    slow_work slow;
    future<void> before = async(device, grid{}, device_fn<nothing>);
    device::wait_event(device, slow.done());
    slow.forget_event();
    future<double> call = async(device, device_fn<add>, 1.0, round);
    future<void> launch = async(device, grid{}, device_fn<nothing>);
    before.get();
    EXPECT_EQ(sync(other, device_fn<add>, 1.0, 1.0), 2.0) << "others do not wait";
    device::quiesce(device);
    const std::uint64_t starts = device::worker_starts(device);
    future<double> next = async(device, device_fn<add>, 2.0, round);
    EXPECT_FALSE(call.wait_for(20ms));
    EXPECT_FALSE(launch.test());
    EXPECT_EQ(device::worker_starts(device), starts);
    slow.end();
    EXPECT_EQ(call.get(), 1.0 + round);
    EXPECT_EQ(next.get(), 2.0 + round);
    launch.get();
    // An event that has completed.
    device::wait_event(device.within(test::wait_limit), slow_work().done());
  }
}

TEST_F(gpu, waits_for_several_events_in_turn) {
  const job all(test::with_targets("cuda:0?idle_ms=1"));
  const node device = warmed(all);
  const lane own(device);
  std::array<slow_work, 4> slow;
  std::vector<future<double>> calls;
  for (const slow_work& s : slow) {
    for (const bool is_own : {true, false}) {
      if (is_own) {
        device::wait_event(own, s.done());
        calls.push_back(async(own, device_fn<add>, 1.0, 2.0));
      } else {
        device::wait_event(device, s.done());
        calls.push_back(async(device, device_fn<add>, 1.0, 2.0));
      }
    }
  }
  for (std::size_t i : {1, 0, 3, 2})
    slow[i].end();
  for (future<double>& f : calls)
    EXPECT_EQ(f.get(), 3.0);
}

TEST_F(gpu, accepts_a_lanes_worth_of_calls_before_an_event) {
  const job all(test::with_targets("cuda:0?idle_ms=1"));
  const node device = warmed(all);
  slow_work slow;
  device::wait_event(device, slow.done());
  std::vector<future<double>> calls;
  for (int i = 0; i < 150; ++i)
    calls.push_back(async(device, device_fn<add>, i, 1.0));
  EXPECT_THROW(device::wait_event(device.within(10ms), slow.done()), timeout);
  EXPECT_THROW((void)sync(device.within(10ms), device_fn<add>, 1.0, 1.0), timeout);
  slow.end();
  for (int i = 0; i < 150; ++i)
    EXPECT_EQ(calls[static_cast<std::size_t>(i)].get(), i + 1.0);
}

TEST_F(gpu, frees_a_lane_that_was_closed_before_its_event) {
  const job all(test::with_targets("cuda:0?workers=1&idle_ms=1"));
  const node device = warmed(all);
  sync(device, pure_fn<nothing>);
  slow_work slow;
  std::vector<lane> lanes;
  while (lanes.size() < 7) // beside this thread's own
    lanes.emplace_back(device);
  device::wait_event(lanes.back(), slow.done());
  post(lanes.back(), device_fn<nothing>);
  lanes.pop_back();
  EXPECT_THROW(lane(device.within(20ms)), error);
  slow.end();
  const auto give_up = std::chrono::steady_clock::now() + test::wait_limit;
  while (lanes.size() < 7 && std::chrono::steady_clock::now() < give_up) {
    try {
      lanes.emplace_back(device);
    } catch (const error&) {
      std::this_thread::yield();
    }
  }
  ASSERT_EQ(lanes.size(), 7U);
  EXPECT_EQ(sync(lanes.back(), device_fn<add>, 1.0, 1.0), 2.0);
}

TEST_F(gpu, refuses_invalid_events) {
  const job all(test::with_targets("cuda:0"));
  const node& device = all.targets()[0];
  EXPECT_THAT(text_thrown_by<remote_error>([&] { device::wait_event(device, nullptr); }),
              HasSubstr("CUDA"));
  EXPECT_EQ(sync(device, device_fn<add>, 1.0, 2.0), 3.0);
}

TEST_F(gpu, reports_the_number_of_gpus_if_one_is_missing) {
  EXPECT_THAT(text_thrown_by<start_failed>([] { job all(test::with_targets("cuda:63")); }),
              AllOf(HasSubstr("no GPU 63"), HasSubstr("counted from 0")));
}

// Afterwards the process cannot use the device any more, so this test runs in its own process.
using gpu_fault = gpu;
TEST_F(gpu_fault, ends_its_own_calls_with_the_reason_of_cuda) {
  job all(test::with_targets("cuda:0,shm"));
  const node& device = all.targets()[0];
  future<void> failing = async(device, device_fn<trap>);
  EXPECT_THAT(text_thrown_by<node_failed>([&] { failing.get(); }),
              AllOf(HasSubstr("node 1"), HasSubstr("CUDA:")));
  EXPECT_EQ(sync(all.targets()[1], device_fn<add>, 1.0, 2.0), 3.0);
}

} // namespace farcall::device_tests

int main(int argc, char** argv) {
  farcall::serve_if_target();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
