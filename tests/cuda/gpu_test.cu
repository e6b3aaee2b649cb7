// What devices must do, on a GPU. Where there is none, these tests skip.

#include <tests/conformance/device.hpp>

#include <cuda_runtime_api.h>

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

// What in CUDA waits for an idle device waits for the idle timeout at most.
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
// CUDA reads it at its first use, whoever's that is.
TEST(gpu_program, has_asked_for_all_hardware_queues) {
  EXPECT_NE(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), nullptr);
}
#endif

TEST_F(gpu, that_is_not_there_is_an_error_that_counts_them) {
  EXPECT_THAT(text_thrown_by<start_failed>([] { job all(test::with_targets("cuda:63")); }),
              AllOf(HasSubstr("no GPU 63"), HasSubstr("counted from 0")));
}

// A process can use the device no more afterwards, so this runs in one of its own.
using gpu_fault = gpu;
TEST_F(gpu_fault, that_fails_ends_its_calls_with_cudas_reason_and_leaves_others_alone) {
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
