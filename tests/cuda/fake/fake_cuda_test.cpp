// SPDX-License-Identifier: Apache-2.0

// Tests farcall with a CUDA that is late, refuses, or fails.

#include "fake_cuda.hpp"

#include <farcall/gpu/device_test_support.hpp>
#include <farcall/gpu/transport/gpu_device.hpp>

#include <algorithm>
#include <numeric>

#include <unistd.h>

namespace farcall::device_tests {

inline std::atomic<bool> is_running{false};
inline void say_and_run_until_allowed() {
  is_running = true;
  run_until_allowed();
}

namespace {

class fake_gpu : public ::testing::Test {
 protected:
  void SetUp() override { fake_cuda::begin(); }
  void TearDown() override { EXPECT_EQ(fake_cuda::left_behind(), ""); }
};

std::vector<std::uint8_t> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::uint8_t> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    values[i] = static_cast<std::uint8_t>(i * 31 + i / 4096 + seed);
  return values;
}

/// Uses a bit of everything.
void use(const node& device) {
  for (int i = 0; i < 20; ++i)
    ASSERT_EQ(sync(device, device_fn<add>, i, 1.0), i + 1.0);
  const auto memory = device.allocate<std::uint8_t>(1 << 20);
  const std::vector<std::uint8_t> sent = pattern(1 << 20, 3);
  put(sent, memory).get();
  std::vector<std::uint8_t> back(sent.size());
  get(memory, back).get();
  ASSERT_EQ(back, sent);
  ASSERT_EQ(sync(device, device_fn<sum_of_squares>, 3), 14);
  const auto floats = device.allocate<float>(100);
  put(std::vector<float>(100, 1.0F), floats).get();
  sync(device, grid{.blocks = 2}, device_fn<add_to_all>, floats.span(), 2.0F);
}

TEST_F(fake_gpu, is_released_completely) {
  const job all(test::with_targets("cuda:0?workers=2"));
  use(all.targets()[0]);
}

// Otherwise a call would wait for a worker, which waits for calls.
TEST_F(fake_gpu, gets_no_calls_that_wait_for_running_workers) {
  {
    const job all(test::with_targets("cuda:0?workers=2&idle_ms=2000"));
    const node& device = all.targets()[0];
    use(device);
    const auto more = device.allocate<std::uint8_t>(200 << 20);
    use(device);
  }
  EXPECT_EQ(fake_cuda::calls_that_waited(), "");
}

// A busy worker, and a thread of the program that needs the device to be idle.
TEST_F(fake_gpu, is_idle_now_and_then_however_busy) {
  // Longer than any call takes, even on a slow machine.
  const job all(test::with_targets("cuda:0?workers=1&idle_ms=150"));
  const node& device = all.targets()[0];
  std::atomic<bool> is_over{false};
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([&] {
      while (!is_over.load())
        ASSERT_EQ(sync(device, device_fn<add>, 1.0, 2.0), 3.0);
    });
  }
  sync(device, pure_fn<nothing>);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  is_over = true;
  for (std::thread& t : callers)
    t.join();
}

TEST_F(fake_gpu, may_copy_late) {
  const job all(test::with_targets("cuda:0?workers=2"));
  const node& device = all.targets()[0];
  fake_cuda::set_most_delay(300);
  void* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, 16 << 20, cudaHostAllocDefault), cudaSuccess);
  const std::span<std::uint8_t> pinned_bytes(static_cast<std::uint8_t*>(pinned), 16 << 20);
  const auto memory = device.allocate<std::uint8_t>(16 << 20);
  unsigned seed = 0;
  // Sizes around the first staged one, and around one and two pieces of 4 MiB.
  for (const std::size_t bytes :
       {std::size_t{3000}, std::size_t{256} << 10, (std::size_t{4} << 20) - 1, std::size_t{4} << 20,
        (std::size_t{8} << 20) + 1, (std::size_t{13} << 20) + 77}) {
    for (const bool is_pinned : {false, true}) {
      const auto part = memory.subspan(5, bytes);
      const std::vector<std::uint8_t> sent = pattern(bytes, ++seed);
      std::vector<std::uint8_t> back(bytes);
      if (is_pinned) {
        std::copy(sent.begin(), sent.end(), pinned_bytes.begin());
        put(pinned_bytes.first(bytes), part).get();
        std::fill_n(pinned_bytes.begin(), bytes, std::uint8_t{0});
        get(part, pinned_bytes.first(bytes)).get();
        std::copy_n(pinned_bytes.begin(), bytes, back.begin());
      } else {
        put(sent, part).get();
        get(part, back).get();
      }
      ASSERT_EQ(back, sent) << bytes << (is_pinned ? ", pinned" : "");
    }
  }
  device::quiesce(device);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(fake_gpu, copies_both_ways_at_a_time) {
  const job all(test::with_targets("cuda:0?workers=2"));
  const node& device = all.targets()[0];
  fake_cuda::set_most_delay(200);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&device, t] {
      constexpr std::size_t bytes = (std::size_t{5} << 20) + 3;
      const auto memory = device.allocate<std::uint8_t>(bytes);
      std::vector<std::uint8_t> back(bytes);
      for (unsigned round = 0; round < 4; ++round) {
        const std::vector<std::uint8_t> sent = pattern(bytes, 10 * t + round);
        put(sent, memory).get();
        get(memory, back).get();
        ASSERT_EQ(back, sent);
      }
    });
  }
  for (std::thread& t : threads)
    t.join();
}

TEST_F(fake_gpu, launches_overtake_each_other_and_complete) {
  const job all(test::with_targets("cuda:0?workers=4"));
  const node& device = all.targets()[0];
  fake_cuda::set_most_delay(500);
  std::vector<lane> lanes;
  for (int i = 0; i < 4; ++i)
    lanes.emplace_back(device);
  const auto values = device.allocate<float>(4 * 64);
  put(std::vector<float>(4 * 64, 0.0F), values).get();
  std::vector<future<void>> ends;
  for (int round = 0; round < 100; ++round) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      ends.push_back(async(lanes[i], grid{.blocks = 3}, device_fn<add_to_all>,
                           values.subspan(i * 64, 64), 1.0F));
    }
  }
  for (future<void>& f : ends)
    f.get();
  std::vector<float> back(4 * 64);
  get(values, back).get();
  EXPECT_EQ(back, std::vector<float>(4 * 64, 100.0F));
}

TEST_F(fake_gpu, leaves_the_selected_device_as_it_was) {
  fake_cuda::set_devices(2);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  {
    const job all(test::with_targets("cuda:0,cuda:1"));
    use(all.targets()[0]);
    use(all.targets()[1]);
    int selected = -1;
    EXPECT_EQ(cudaGetDevice(&selected), cudaSuccess);
    EXPECT_EQ(selected, 1);
    std::thread([&] { use(all.targets()[1]); }).join();
  }
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

// A capture forbids other threads of the process calls that it cannot record. It must neither make
// the device fail, nor may the device's threads invalidate it.
TEST_F(fake_gpu, works_on_while_the_program_captures_a_stream) {
  const job all(test::with_targets("cuda:0?workers=2&idle_ms=1"));
  const node& device = all.targets()[0];
  use(device);
  cudaStream_t own = nullptr;
  ASSERT_EQ(cudaStreamCreate(&own), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(own, cudaStreamCaptureModeGlobal), cudaSuccess);
  use(device);
  // Wait until the worker has left and started again, and so the monitor has checked.
  std::this_thread::sleep_for(20ms);
  std::thread([&] { use(device); }).join();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(own, &graph), cudaSuccess);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal) << "the thread has the mode that it had";
  EXPECT_EQ(cudaStreamDestroy(own), cudaSuccess);
  EXPECT_TRUE(device.alive());
}

// Errors of captures, wherever they show, are not the device's.
TEST_F(fake_gpu, does_not_fail_by_an_error_of_a_capture) {
  const job all(test::with_targets("cuda:0?idle_ms=1"));
  const node& device = all.targets()[0];
  for (const cudaError_t status :
       {cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureImplicit,
        cudaErrorStreamCaptureWrongThread}) {
    fake_cuda::fail_function("cudaStreamQuery", status);
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(sync(device, device_fn<add>, i, 1.0), i + 1.0);
      std::this_thread::sleep_for(1ms);
    }
    fake_cuda::fail_function("cudaStreamQuery", cudaSuccess);
  }
  EXPECT_TRUE(device.alive());
}

// A context takes hundreds of megabytes of a device, which may be in use by others.
TEST_F(fake_gpu, is_the_only_one_that_is_used) {
  fake_cuda::set_devices(3);
  std::thread([] {
    const job all(test::with_targets("cuda:1?workers=2&idle_ms=1"));
    const node& device = all.targets()[0];
    use(device);
    std::this_thread::sleep_for(10ms);
    std::thread([&] { use(device); }).join();
    int selected = -1;
    EXPECT_EQ(cudaGetDevice(&selected), cudaSuccess);
    EXPECT_EQ(selected, 0);
  }).join();
  EXPECT_THAT(fake_cuda::devices_with_context(), ::testing::ElementsAre(1));
}

TEST_F(fake_gpu, copies_from_and_to_another_one) {
  fake_cuda::set_devices(2);
  const job all(test::with_targets("cuda:0,cuda:1"));
  const auto a = all.targets()[0].allocate<std::uint8_t>(1 << 20);
  const auto b = all.targets()[1].allocate<std::uint8_t>(1 << 20);
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{5000}, std::size_t{1} << 20}) {
    const std::vector<std::uint8_t> sent = pattern(bytes, 9);
    std::vector<std::uint8_t> back(bytes);
    put(sent, a.subspan(0, bytes)).get();
    copy(a.subspan(0, bytes), b.subspan(0, bytes)).get();
    get(b.subspan(0, bytes), back).get();
    ASSERT_EQ(back, sent);
  }
  EXPECT_TRUE(all.targets()[1].alive());
}

// Memory of both, allocated before the other device was added, and after.
TEST_F(fake_gpu, that_are_peers_use_each_others_memory) {
  fake_cuda::set_devices(4);
  fake_cuda::make_peers();
  {
    const job all(test::with_targets("cuda:0?idle_ms=2000,cuda:1"));
    const node& first = all.targets()[0];
    const auto early = first.allocate<double>(100);
    put(std::vector<double>(100, 7.0), early).get();
    EXPECT_EQ(sync(first, device_fn<add>, 1.0, 2.0), 3.0); // so that a worker is running
    const job later(test::with_targets("cuda:2"));
    const node& second = later.targets()[0];
    const auto late = first.allocate<double>((std::size_t{70} << 20) / sizeof(double));
    const auto own = second.allocate<double>(100);
    put(std::vector<double>(100, 8.0), own).get();
    EXPECT_EQ(sync(second, device_fn<value_at>, early.span().address()), 7.0);
    EXPECT_EQ(sync(first, device_fn<value_at>, own.span().address()), 8.0);
    for (const auto& span : {early.span(), late.span()}) {
      EXPECT_TRUE(fake_cuda::can_use(0, span.address(), span.size_bytes()));
      EXPECT_TRUE(fake_cuda::can_use(1, span.address(), span.size_bytes()));
      EXPECT_TRUE(fake_cuda::can_use(2, span.address(), span.size_bytes()));
      EXPECT_FALSE(fake_cuda::can_use(3, span.address(), span.size_bytes()));
    }
    EXPECT_TRUE(fake_cuda::can_use(0, own.span().address(), own.span().size_bytes()));
  }
  EXPECT_EQ(fake_cuda::devices_with_context(), (std::set<int>{0, 1, 2}));
}

TEST_F(fake_gpu, that_are_no_peers_use_their_own_memory) {
  fake_cuda::set_devices(2);
  const job all(test::with_targets("cuda:0,cuda:1"));
  const auto memory = all.targets()[0].allocate<double>(100);
  EXPECT_TRUE(fake_cuda::can_use(0, memory.span().address(), memory.span().size_bytes()));
  EXPECT_FALSE(fake_cuda::can_use(1, memory.span().address(), 1));
  use(all.targets()[0]);
  use(all.targets()[1]);
}

TEST_F(fake_gpu, shows_profilers_what_it_does) {
  (void)fake_cuda::take_profile();
  {
    const job all(test::with_targets("cuda:0"));
    const node& device = all.targets()[0];
    use(device);
    device::when(device, device::stream(device)).get();
  }
  const fake_cuda::profile seen = fake_cuda::take_profile();
  if (seen.ranges.empty()) GTEST_SKIP() << "CUDA's headers have no NVTX";
  EXPECT_EQ(seen.open, 0);
  for (const char* name : {"start of a worker", "launch", "when"})
    EXPECT_GE(seen.ranges.count(name), 1U) << name;
  EXPECT_THAT(seen.ranges, ::testing::Contains(std::pair<const std::string, std::uint64_t>(
                               "copy", std::uint64_t{1} << 20)));
  EXPECT_THAT(seen.ranges, ::testing::Contains(std::pair<const std::string, std::uint64_t>(
                               "memory", std::uint64_t{64} << 20)));
}

/// Reads the memory like a process that imports the handles.
std::vector<std::uint8_t> read_exported(const std::vector<device::memory_handle>& handles) {
  std::vector<std::uint8_t> all;
  for (const device::memory_handle& h : handles) {
    std::vector<std::uint8_t> part(h.bytes);
    EXPECT_LE(h.offset + h.bytes, h.file_bytes);
    EXPECT_EQ(::pread(h.file.get(), part.data(), part.size(), static_cast<off_t>(h.offset)),
              static_cast<ssize_t>(part.size()));
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST_F(fake_gpu, exports_its_memory) {
  const job all(test::with_targets("cuda:0"));
  const node& device = all.targets()[0];
  // In three pieces of 64 MiB; the first piece also has the other block.
  const auto other = device.allocate<std::uint8_t>(1000);
  const auto memory = device.allocate<std::uint8_t>((std::size_t{130} << 20));
  EXPECT_TRUE(fake_cuda::is_for_rdma(memory.span().address()));
  const std::vector<std::uint8_t> sent = pattern(memory.span().size(), 5);
  put(sent, memory).get();
  const auto handles = device::export_memory(device, memory.span());
  EXPECT_EQ(handles.size(), 3U);
  EXPECT_TRUE(read_exported(handles) == sent);
  const auto part = device::export_memory(device, memory.subspan(100, 50));
  ASSERT_EQ(part.size(), 1U);
  EXPECT_EQ(read_exported(part), std::vector<std::uint8_t>(sent.begin() + 100, sent.begin() + 150));
  EXPECT_THAT(text_thrown_by<error>([&] {
                (void)device::export_memory(device,
                                            remote_span<std::uint8_t>(device.id(), 4096, 10));
              }),
              HasSubstr("no memory of the device"));
}

TEST_F(fake_gpu, that_cannot_export_memory_works_without) {
  fake_cuda::set_attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0);
  fake_cuda::set_attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0);
  const job all(test::with_targets("cuda:0"));
  const node& device = all.targets()[0];
  use(device);
  const auto memory = device.allocate<std::uint8_t>(1000);
  EXPECT_FALSE(fake_cuda::is_for_rdma(memory.span().address()));
  EXPECT_THAT(text_thrown_by<error>([&] { (void)device::export_memory(device, memory.span()); }),
              HasSubstr("cannot be exported"));
}

/// A stream of the program with work that ends when it is allowed to.
struct busy_stream {
  busy_stream() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), cudaSuccess);
    fake_cuda::enqueue_kernel(nullptr, handle, [this] {
      while (!may_go.load())
        std::this_thread::yield();
    });
  }
  ~busy_stream() {
    may_go = true;
    EXPECT_EQ(cudaStreamDestroy(handle), cudaSuccess);
  }
  cudaStream_t handle = nullptr;
  std::atomic<bool> may_go{false};
};

// A thread of CUDA writes instead.
TEST_F(fake_gpu, that_has_no_writes_in_streams_works_without) {
  fake_cuda::set_attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0);
  const job all(test::with_targets("cuda:0?idle_ms=1"));
  const node& device = all.targets()[0];
  use(device); // so that there is memory
  busy_stream slow;
  cudaEvent_t done = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(done, slow.handle), cudaSuccess);
  future<void> at_end = device::when(device, slow.handle);
  device::wait_event(device, done);
  future<double> call = async(device, device_fn<add>, 1.0, 2.0);
  EXPECT_FALSE(call.wait_for(5ms));
  EXPECT_FALSE(at_end.test());
  slow.may_go = true;
  EXPECT_EQ(call.get(), 3.0);
  at_end.get();
  EXPECT_EQ(cudaEventDestroy(done), cudaSuccess);
  EXPECT_EQ(fake_cuda::calls_that_waited(), "");
}

TEST_F(fake_gpu, refuses_to_watch_captured_and_destroyed_streams) {
  const job all(test::with_targets("cuda:0"));
  const node& device = all.targets()[0];
  cudaStream_t own = nullptr;
  ASSERT_EQ(cudaStreamCreate(&own), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(own, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_THAT(text_thrown_by<remote_error>([&] { device::when(device, own).get(); }),
              HasSubstr("captured"));
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(own, &graph), cudaSuccess);
  device::when(device, own).get();
  EXPECT_EQ(cudaStreamDestroy(own), cudaSuccess);
  EXPECT_THAT(text_thrown_by<remote_error>([&] { device::when(device, own).get(); }),
              HasSubstr("CUDA"));
  use(device);
}

// The stream would write into memory of a job that has ended.
TEST_F(fake_gpu, is_left_unreleased_while_a_stream_never_ends) {
  for (const bool is_given_up : {false, true}) {
    std::optional<busy_stream> endless; // made after the job's own waits for an idle device
    cudaEvent_t done = nullptr;
    {
      job_options o = test::with_targets("cuda:0");
      o.stop_timeout = 50ms;
      const job all(o);
      const node& device = all.targets()[0];
      endless.emplace();
      ASSERT_EQ(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), cudaSuccess);
      ASSERT_EQ(cudaEventRecord(done, endless->handle), cudaSuccess);
      if (is_given_up) {
        device::wait_event(device, done);
        EXPECT_THROW((void)sync(device.within(20ms), device_fn<add>, 1.0, 1.0), timeout);
        device::give_up(device);
      } else {
        EXPECT_THROW(device::when(device.within(20ms), endless->handle).get(), timeout);
        device::wait_event(device, done);
        post(device, device_fn<nothing>);
      }
    }
    EXPECT_THAT(fake_cuda::left_behind(), HasSubstr("pinned"));
    endless.reset();
    fake_cuda::begin();
  }
}

// For any call that fails for an event: it is an error, and the lane goes on.
TEST_F(fake_gpu, may_refuse_to_wait_for_an_event) {
  const job all(test::with_targets("cuda:0?idle_ms=1"));
  const node& device = all.targets()[0];
  use(device);
  for (const char* function :
       {"cudaEventQuery", "cudaStreamWaitEvent", "cudaStreamIsCapturing", "cuStreamWriteValue64"}) {
    busy_stream slow;
    cudaEvent_t done = nullptr;
    ASSERT_EQ(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(done, slow.handle), cudaSuccess);
    fake_cuda::fail_function(function, cudaErrorInvalidValue);
    EXPECT_THROW(device::wait_event(device, done), remote_error);
    fake_cuda::fail_function(function, cudaSuccess);
    EXPECT_EQ(sync(device, device_fn<add>, 1.0, 2.0), 3.0);
    EXPECT_EQ(cudaEventDestroy(done), cudaSuccess);
  }
}

/// Checks the objects that are left after a failed call. If that call checked for faults, or
/// selected the device for it, kernels may still run, and no object is released. An object whose
/// release failed is left, too.
void expect_nothing_left() {
  const std::string failed = fake_cuda::failed_function();
  if (failed == "cudaStreamQuery" || failed == "cuCtxPushCurrent" || failed == "cuMemRelease") {
    fake_cuda::begin();
  } else {
    EXPECT_EQ(fake_cuda::left_behind(), "") << failed;
  }
}

// For any call that fails while a job starts: an error in one line, and no object is left.
TEST_F(fake_gpu, may_refuse_any_call_at_the_start) {
  int failed = 0;
  for (std::int64_t call = 1;; ++call) {
    fake_cuda::begin();
    fake_cuda::fail_call(call, cudaErrorMemoryAllocation);
    try {
      const job all(test::with_targets("cuda:0?workers=2"));
      fake_cuda::fail_no_call();
      if (fake_cuda::failed_function().empty()) break;
    } catch (const start_failed& e) {
      ++failed;
      EXPECT_THAT(e.what(), HasSubstr("node 1"));
      EXPECT_EQ(std::string_view(e.what()).find('\n'), std::string_view::npos);
      expect_nothing_left();
    }
  }
  EXPECT_GT(failed, 40);
}

// For any call that fails later: an error or none, and the job ends.
TEST_F(fake_gpu, may_refuse_any_call_while_it_works) {
  int failed = 0;
  // Try each of the first calls, then some: later ones mostly belong to a wait.
  for (std::int64_t call = 1;; call += 1 + call / 16) {
    fake_cuda::begin();
    {
      const job all(test::with_targets("cuda:0?workers=2&idle_ms=1"));
      fake_cuda::fail_call(call, cudaErrorMemoryAllocation);
      try {
        use(all.targets()[0]);
      } catch (const error&) {
        ++failed;
      }
      fake_cuda::fail_no_call();
      if (fake_cuda::failed_function().empty()) break;
    }
    expect_nothing_left();
  }
  EXPECT_GT(failed, 5);
}

TEST_F(fake_gpu, names_missing_gpus_drivers_and_code) {
  fake_cuda::set_devices(0);
  EXPECT_THAT(text_thrown_by<start_failed>([] { job all(test::with_targets("cuda:0")); }),
              HasSubstr("GPU"));
  fake_cuda::begin();
  fake_cuda::fail_function("cudaGetDeviceCount", cudaErrorInsufficientDriver);
  EXPECT_THAT(text_thrown_by<start_failed>([] { job all(test::with_targets("cuda:0")); }),
              HasSubstr("driver is too old"));
  fake_cuda::begin();
  fake_cuda::fail_function("cudaFuncGetAttributes", cudaErrorNoKernelImageForDevice);
  EXPECT_THAT(text_thrown_by<start_failed>([] { job all(test::with_targets("cuda:0")); }),
              AllOf(HasSubstr("sm_90"), HasSubstr("CMAKE_CUDA_ARCHITECTURES=90")));
}

// If all code is optimised at link time, a function has a number in place of an address: 8, 16, 24.
TEST_F(fake_gpu, is_not_told_numbers_for_addresses_of_functions) {
  for (const std::uint64_t number : {0U, 8U, 16U, 24U, 1048U}) {
    EXPECT_THAT(text_thrown_by<error>([&] { (void)cuda::read_device_symbol(&number); }),
                AllOf(HasSubstr("-dlto"), HasSubstr("-rdc=true")));
  }
  const std::uint64_t address = 0x7f3a'0000'2780;
  EXPECT_EQ(cuda::read_device_symbol(&address), address);
}

TEST_F(fake_gpu, reports_its_memory) {
  fake_cuda::set_memory(std::uint64_t{300} << 20);
  const job all(test::with_targets("cuda:0"));
  const node& device = all.targets()[0];
  // Other programs have taken most of it since.
  fake_cuda::set_memory(std::uint64_t{100} << 20);
  const auto some = device.allocate<std::byte>(50 << 20);
  const std::string why =
      text_thrown_by<out_of_memory>([&] { (void)device.allocate<std::byte>(150 << 20); });
  EXPECT_THAT(why, AllOf(HasSubstr("free of 104857600"), HasSubstr("other programs")));
  use(device);
}

TEST_F(fake_gpu, gives_memory_again_that_it_could_not_map) {
  const job all(test::with_targets("cuda:0"));
  const node& device = all.targets()[0];
  for (const char* function : {"cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
    fake_cuda::fail_function(function, cudaErrorMemoryAllocation);
    EXPECT_THROW((void)device.allocate<std::byte>(1000), error);
    fake_cuda::fail_function(function, cudaSuccess);
  }
  use(device);
}

TEST_F(fake_gpu, refuses_a_copy_and_goes_on) {
  const job all(test::with_targets("cuda:0"));
  const node& device = all.targets()[0];
  const auto memory = device.allocate<std::uint8_t>(9 << 20);
  std::vector<std::uint8_t> bytes = pattern(9 << 20, 1);
  for (const char* function : {"cudaMemcpyAsync", "cudaEventRecord", "cudaEventSynchronize"}) {
    fake_cuda::fail_function(function, cudaErrorInvalidValue);
    EXPECT_THAT(text_thrown_by<error>([&] { put(bytes, memory).get(); }), HasSubstr("copying"));
    EXPECT_THAT(text_thrown_by<error>([&] { get(memory, bytes).get(); }), HasSubstr("copying"));
    fake_cuda::fail_function(function, cudaSuccess);
  }
  use(device);
}

TEST_F(fake_gpu, stuck_in_a_call_tells_its_busy_streams) {
  may_end = false;
  const job all(test::with_targets("cuda:0?workers=2"));
  const node& device = all.targets()[0];
  const lane busy(device);
  future<void> endless = async(busy, device_fn<run_until_allowed>);
  EXPECT_TRUE(test::eventually([&] {
    return diagnosis_of(device).find("streams of workers: busy idle; of launches: idle") !=
           std::string::npos;
  })) << diagnosis_of(device);
  may_end = true;
  endless.get();
}

TEST_F(fake_gpu, that_does_not_start_a_worker_again_has_failed) {
  const job all(test::with_targets("cuda:0?idle_ms=1,shm"));
  const node& device = all.targets()[0];
  use(device);
  sync(device, device_fn<nothing>); // after which memory is freed
  device::quiesce(device);
  fake_cuda::fail_function("cudaLaunchKernel", cudaErrorMemoryAllocation);
  EXPECT_THAT(
      text_thrown_by<node_failed>([&] { sync(device, device_fn<nothing>); }),
      AllOf(HasSubstr("node 1"), HasSubstr("starting a worker"), HasSubstr("out of memory")));
  EXPECT_EQ(sync(all.targets()[1], device_fn<add>, 1.0, 2.0), 3.0);
}

TEST_F(fake_gpu, is_not_reset_for_an_error_of_the_program) {
  cudaStream_t own = nullptr;
  ASSERT_EQ(cudaStreamCreate(&own), cudaSuccess);
  {
    const job all(test::with_targets("cuda:0"));
    use(all.targets()[0]);
    EXPECT_NE(cudaSetDevice(7), cudaSuccess); // CUDA remembers the error until it is asked for it
  }
  EXPECT_EQ(fake_cuda::left_behind(), "1 streams");
  EXPECT_EQ(cudaStreamDestroy(own), cudaSuccess);
}

TEST_F(fake_gpu, is_left_unreleased_while_a_launch_never_ends) {
  for (const bool is_given_up : {true, false}) {
    may_end = false;
    {
      job_options o = test::with_targets("cuda:0?workers=2");
      o.stop_timeout = 50ms;
      const job all(o);
      const node& device = all.targets()[0];
      const future<void> endless = async(device, grid{}, device_fn<run_until_allowed>);
      sync(device, pure_fn<nothing>);
      if (is_given_up) device::give_up(device);
    }
    EXPECT_NE(fake_cuda::left_behind(), "");
    may_end = true;
    fake_cuda::begin();
  }
}

// CUDA would wait for the running kernels, so it must not be called.
TEST_F(fake_gpu, that_was_given_up_is_not_asked_for_memory) {
  may_end = is_running = false;
  {
    const job all(test::with_targets("cuda:0?workers=2"));
    const node& device = all.targets()[0];
    const future<void> endless = async(device, device_fn<say_and_run_until_allowed>);
    while (!is_running)
      std::this_thread::yield();
    std::thread waiting([&] {
      EXPECT_THAT(text_thrown_by<node_failed>([&] { (void)device.allocate<std::byte>(1 << 20); }),
                  HasSubstr("given up"));
    });
    std::this_thread::sleep_for(20ms);
    device::give_up(device);
    EXPECT_THAT(text_thrown_by<node_failed>([&] { device::quiesce(device); }),
                HasSubstr("given up"));
    EXPECT_THAT(text_thrown_by<node_failed>([&] { (void)device.allocate<std::byte>(1 << 20); }),
                HasSubstr("given up"));
    waiting.join();
  }
  EXPECT_THAT(fake_cuda::calls_that_waited(), ::testing::Not(HasSubstr("cuMem")));
  may_end = true;
  fake_cuda::begin();
}

TEST_F(fake_gpu, that_has_faulted_serves_a_new_job) {
  for (int round = 0; round < 3; ++round) {
    const job all(test::with_targets("cuda:0?workers=2"));
    const node& device = all.targets()[0];
    use(device);
    future<void> failing =
        round == 1 ? async(device, grid{}, device_fn<trap>) : async(device, device_fn<trap>);
    EXPECT_THAT(text_thrown_by<node_failed>([&] { failing.get(); }),
                AllOf(HasSubstr("node 1"), HasSubstr("illegal memory access")));
  }
}

} // namespace
} // namespace farcall::device_tests
