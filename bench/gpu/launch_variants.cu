// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"
#include "functions.hpp"
#include "launch_variants.hpp"

#include <farcall/base/clock.hpp>
#include <farcall/gpu/transport/system_scope.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace farcall::gpu {
namespace {

constexpr unsigned threads = 32; // fewer than a worker has, which favours launches

struct outcome {
  alignas(128) std::uint64_t result;
  alignas(128) std::uint64_t flag;
};

__global__ void empty_kernel() { nothing(); }

/// Stores the result normally: it is visible after waiting for the stream.
__global__ void sum_kernel(const block<64> b, std::uint64_t* result) {
  if (threadIdx.x == 0) *result = sum_of(b);
}

/// Stores the result and sets a flag, so that waiting for the stream is not needed: the strongest
/// baseline.
__global__ void sum_and_tell(const block<64> b, outcome* to, std::uint64_t number) {
  if (threadIdx.x != 0) return;
  to->result = sum_of(b);
  cuda::store_release(&to->flag, number);
}

/// Like sum_and_tell(), but counts itself: the arguments of a graph are fixed.
__global__ void sum_and_count(const block<64> b, outcome* to, std::uint64_t* count) {
  if (threadIdx.x != 0) return;
  to->result = sum_of(b);
  cuda::store_release(&to->flag, ++*count);
}

template <std::size_t Bytes>
__global__ void raise_kernel(const block<Bytes>* from, block<Bytes>* to) {
  if (threadIdx.x == 0) *to = raised(*from);
}

__global__ void sum_in_memory(const block<64>* from, std::uint64_t* to) {
  if (threadIdx.x == 0) *to = sum_of(*from);
}

void spin_on(const own_stream& stream) {
  cudaError_t status = cudaStreamQuery(stream.get());
  while (status == cudaErrorNotReady)
    status = cudaStreamQuery(stream.get());
  check(status, "asking for a stream");
}

void spin_on(std::uint64_t& flag, std::uint64_t number) {
  const std::atomic_ref word(flag);
  for (std::uint64_t looks = 0; word.load(std::memory_order_acquire) != number; ++looks) {
    spin_pause();
    if (looks > 100'000'000)
      throw std::runtime_error("a launched kernel has not said that it ended");
  }
}

class launches {
 public:
  explicit launches(const launch_visitor& visit) : visit_(&visit) {
    for (std::uint32_t i = 0; i < 16; ++i)
      b_.words[i] = i;
  }

  void run() {
    synchronized();
    told();
    copied();
    larger<64>();
    larger<256>();
    larger<1024>();
    fixed_graph();
    changed_graph();
    many();
  }

 private:
  void offer(const std::string& name, const std::function<void()>& call) {
    (*visit_)({name}, call);
  }
  void expect_sum(std::uint64_t sum) const {
    if (sum != sum_of(b_)) throw std::runtime_error("a launched kernel has summed up wrongly");
  }

  void synchronized() {
    offer("empty launch, spinning on cudaStreamQuery", [&] {
      empty_kernel<<<1, threads, 0, stream_.get()>>>();
      spin_on(stream_);
    });
    offer("empty launch, cudaStreamSynchronize (spins)", [&] {
      empty_kernel<<<1, threads, 0, stream_.get()>>>();
      stream_.synchronize();
    });
    offer("launch 64 B in, 8 B out, cudaStreamSynchronize", [&] {
      sum_kernel<<<1, threads, 0, stream_.get()>>>(b_, &to_->result);
      stream_.synchronize();
    });
    check(cudaGetLastError(), "launching");
    expect_sum(to_->result);
  }

  void told() {
    std::uint64_t number = 0;
    offer("launch 64 B in, 8 B out, flag in mapped memory", [&] {
      sum_and_tell<<<1, threads, 0, stream_.get()>>>(b_, to_.get(), ++number);
      spin_on(to_->flag, number);
    });
    expect_sum(to_->result);
    stream_.synchronize();
    to_->flag = 0;
  }

  void copied() {
    const pinned<block<64>> from;
    const pinned<std::uint64_t> back;
    const device_array<block<64>> in(1);
    const device_array<std::uint64_t> out(1);
    *from = b_;
    offer("copy + launch + copy, 64 B in, 8 B out", [&] {
      (void)cudaMemcpyAsync(in.get(), from.get(), sizeof b_, cudaMemcpyHostToDevice, stream_.get());
      sum_in_memory<<<1, threads, 0, stream_.get()>>>(in.get(), out.get());
      (void)cudaMemcpyAsync(back.get(), out.get(), sizeof *back, cudaMemcpyDeviceToHost,
                            stream_.get());
      stream_.synchronize();
    });
    check(cudaGetLastError(), "copying and launching");
    expect_sum(*back);
  }

  template <std::size_t Bytes>
  void larger() {
    const pinned<block<Bytes>> from;
    const pinned<block<Bytes>> back;
    const device_array<block<Bytes>> in(1);
    const device_array<block<Bytes>> out(1);
    offer("copy + launch + copy, " + std::to_string(Bytes) + " B each way", [&] {
      (void)cudaMemcpyAsync(in.get(), from.get(), Bytes, cudaMemcpyHostToDevice, stream_.get());
      raise_kernel<Bytes><<<1, threads, 0, stream_.get()>>>(in.get(), out.get());
      (void)cudaMemcpyAsync(back.get(), out.get(), Bytes, cudaMemcpyDeviceToHost, stream_.get());
      stream_.synchronize();
    });
    check(cudaGetLastError(), "copying and launching");
    if (back->words[0] != 1) throw std::runtime_error("a launched kernel has computed wrongly");
  }

  /// A graph of one kernel.
  class graph {
   public:
    graph(const void* kernel, void** arguments) {
      parameters_.func = const_cast<void*>(kernel);
      parameters_.gridDim = dim3(1);
      parameters_.blockDim = dim3(threads);
      parameters_.kernelParams = arguments;
      check(cudaGraphCreate(&graph_, 0), "making a graph");
      check(cudaGraphAddKernelNode(&node_, graph_, nullptr, 0, &parameters_), "making a graph");
      check(cudaGraphInstantiate(&ready_, graph_, 0), "making a graph");
    }
    graph(const graph&) = delete;
    graph& operator=(const graph&) = delete;
    ~graph() {
      (void)cudaGraphExecDestroy(ready_);
      (void)cudaGraphDestroy(graph_);
    }
    void launch(const own_stream& stream) const { (void)cudaGraphLaunch(ready_, stream.get()); }
    void change() const { (void)cudaGraphExecKernelNodeSetParams(ready_, node_, &parameters_); }

   private:
    cudaKernelNodeParams parameters_{};
    cudaGraph_t graph_ = nullptr;
    cudaGraphNode_t node_ = nullptr;
    cudaGraphExec_t ready_ = nullptr;
  };

  void fixed_graph() {
    const device_array<std::uint64_t> count(1);
    check(cudaMemset(count.get(), 0, sizeof(std::uint64_t)), "clearing a counter");
    // cudaMemset() used another stream, which is not ordered with ours.
    check(cudaDeviceSynchronize(), "clearing a counter");
    outcome* to = to_.get();
    std::uint64_t* counter = count.get();
    std::array<void*, 3> arguments{&b_, &to, &counter};
    const graph g(reinterpret_cast<const void*>(&sum_and_count), arguments.data());
    std::uint64_t number = 0;
    offer("graph, fixed 64 B in, 8 B out, flag", [&] {
      g.launch(stream_);
      spin_on(to_->flag, ++number);
    });
    offer("graph, fixed 64 B in, 8 B out, cudaStreamSynchronize", [&] {
      g.launch(stream_);
      stream_.synchronize();
    });
    check(cudaGetLastError(), "launching a graph");
    expect_sum(to_->result);
    to_->flag = 0;
  }

  void changed_graph() {
    outcome* to = to_.get();
    std::uint64_t number = 0;
    std::array<void*, 3> arguments{&b_, &to, &number};
    const graph g(reinterpret_cast<const void*>(&sum_and_tell), arguments.data());
    offer("graph, changed 64 B in, 8 B out, flag", [&] {
      ++number;
      g.change();
      g.launch(stream_);
      spin_on(to_->flag, number);
    });
    check(cudaGetLastError(), "launching a graph");
    expect_sum(to_->result);
    stream_.synchronize();
    to_->flag = 0;
  }

  /// Launches as fast as one thread of the host can, and waits for many at a time.
  void many() {
    constexpr std::size_t launches = 1000;
    (*visit_)({"launches of one thread, waited for by the thousand", launches}, [&] {
      for (std::size_t k = 0; k < launches; ++k)
        sum_kernel<<<1, threads, 0, stream_.get()>>>(b_, &to_->result);
      stream_.synchronize();
    });
    check(cudaGetLastError(), "launching");
    expect_sum(to_->result);
  }

  const launch_visitor* visit_;
  own_stream stream_;
  pinned<outcome> to_;
  block<64> b_{};
};

} // namespace

void visit_launches(const launch_visitor& visit) { launches(visit).run(); }

} // namespace farcall::gpu
