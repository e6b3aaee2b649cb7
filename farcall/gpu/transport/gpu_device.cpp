// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/clock.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/gpu/transport/cuda_calls.hpp>
#include <farcall/gpu/transport/gpu_device.hpp>
#include <farcall/gpu/transport/gpu_memory.hpp>
#include <farcall/gpu/transport/link_speed.hpp>
#include <farcall/gpu/transport/profiler_range.hpp>
#include <farcall/gpu/transport/stream_writes.hpp>
#include <farcall/memory/copy.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace farcall::cuda {
namespace {

/// Smallest copy, in bytes, that a copy engine makes. The engine takes several microseconds to
/// start, which is about three times as long as a message of this size takes. The figures are
/// published ones and were not measured here.
constexpr std::uint64_t by_copy_engine_from = 2049;

/// Bytes of each of the two pinned pieces through which pageable memory is copied. With two pieces,
/// the copy engine and the processor work at the same time.
constexpr std::uint64_t staging_piece = std::uint64_t{4} << 20;
/// Smallest copy of pageable memory, in bytes, that is made through the pinned pieces. The driver
/// itself makes shorter copies.
constexpr std::uint64_t staged_from = std::uint64_t{256} << 10;

std::string link_of(int device) {
  std::array<char, 32> bus{};
  if (cudaDeviceGetPCIBusId(bus.data(), bus.size(), device) != cudaSuccess) return {};
  return link_speed(bus.data());
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Returns the name under which profilers show a launch.
const char* name_of(launch_kind kind) noexcept {
  switch (kind) {
  case launch_kind::stream_write:
    return "when";
  case launch_kind::event_wait:
    return "wait_event";
  case launch_kind::kernel:
    break;
  }
  return "launch";
}

class gpu_device final : public device_api {
 public:
  explicit gpu_device(const gpu_options& o)
      : options_(o), device_(static_cast<int>(o.device)), memory_(device_) {
    refuse_blocking_launches();
    find_device();
    // NOLINTNEXTLINE(cppcoreguidelines-prefer-member-initializer): not before there is a device
    context_ = context_of(device_);
    const device_scope scope(context_);
    try {
      make();
    } catch (...) {
      give_back();
      throw;
    }
  }

  ~gpu_device() override {
    try {
      const device_scope scope(context_);
      if (failure()) {
        // After a failure the device's context can neither be used nor freed, but resetting the
        // device lets the program make a new one. Reset it in a separate thread, because the reset
        // takes away the context that the calling thread has selected.
        library_thread("farcall-device", [this] {
          try {
            const device_scope scope(context_);
            (void)cudaDeviceReset();
          } catch (const std::exception&) {
            // See below.
          }
        }).join();
      } else if (!is_abandoned_) {
        give_back();
      }
    } catch (const std::exception&) {
      // Ignore the error: the device has failed, and all its state is lost with it.
    }
  }

  device_description describe() const override {
    device_description d;
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device_) == cudaSuccess) {
      d.name = properties.name;
      d.architecture = "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
      d.memory_bytes = properties.totalGlobalMem;
      d.processors = static_cast<std::uint32_t>(properties.multiProcessorCount);
    }
    int driver = 0;
    int runtime = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    d.driver = "driver for CUDA " + version_text(driver) + ", runtime " + version_text(runtime);
    d.link = link_of(device_);
    return d;
  }

  std::byte* share(std::uint64_t bytes) override {
    const device_scope scope(context_);
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable),
          "pinning memory for messages");
    shared_.push_back(memory);
    void* there = nullptr;
    check(cudaHostGetDevicePointer(&there, memory, 0), "mapping memory for messages");
    if (there != memory) {
      throw error("the device sees the host's memory under other addresses, as no 64-bit system "
                  "that CUDA runs on should");
    }
    std::memset(memory, 0, bytes);
    return static_cast<std::byte*>(memory);
  }

  const std::uint64_t* upload(std::span<const std::uint64_t> numbers) override {
    const device_scope scope(context_);
    void* memory = nullptr;
    check(cudaMalloc(&memory, std::max<std::size_t>(numbers.size_bytes(), 8)),
          "allocating the table of handlers");
    tables_.push_back(memory);
    check(cudaMemcpy(memory, numbers.data(), numbers.size_bytes(), cudaMemcpyHostToDevice),
          "copying the table of handlers");
    return static_cast<const std::uint64_t*>(memory);
  }

  range reserve(std::uint64_t at_most) override {
    const device_scope scope(context_);
    return memory_.reserve(at_most);
  }
  void provide(std::uint64_t address, std::uint64_t bytes) override {
    const device_scope scope(context_);
    const profiler_range range("memory", bytes);
    memory_.provide(address, bytes);
  }
  bool is_open_to_peers() override {
    const device_scope scope(context_);
    return memory_.is_open_to_peers();
  }
  void open_to_peers() override {
    const device_scope scope(context_);
    memory_.open_to_peers();
  }
  std::vector<memory_handle> export_memory(std::uint64_t address, std::uint64_t bytes) override {
    const device_scope scope(context_);
    return memory_.export_part(address, bytes);
  }

  void start(std::uint32_t index, const worker_setup& setup) override {
    const device_scope scope(context_);
    const profiler_range range("start of a worker");
    worker_setup copy = setup;
    std::array<void*, 1> arguments{&copy};
    check(cudaLaunchKernel(options_.kernel, dim3(1), dim3(options_.threads), arguments.data(),
                           options_.kernel_memory, workers_[index]),
          "starting a worker");
  }

  std::optional<std::string> failure() override try {
    const device_scope scope(context_);
    // Query the first stream; any stream would do, because an error of a kernel stays in the
    // context, and every stream reports it.
    const cudaError_t status = cudaStreamQuery(workers_.front());
    if (status == cudaSuccess || status == cudaErrorNotReady) return std::nullopt;
    if (!is_of_capture(status)) return text_of(status);
    (void)cudaGetLastError();
    return std::nullopt;
  } catch (const error& e) {
    return e.what();
  }

  std::string activity() override {
    const device_scope scope(context_);
    std::string text = "streams of workers:";
    for (cudaStream_t s : workers_)
      text += ' ' + activity_of(s);
    text += "; of launches:";
    for (cudaStream_t s : streams_)
      text += ' ' + activity_of(s);
    text += "; of copies:";
    for (const copy_way& way : ways_)
      text += ' ' + activity_of(way.stream);
    return text;
  }

  void join(std::uint32_t index) override {
    const device_scope scope(context_);
    check(cudaStreamSynchronize(workers_[index]), "waiting for a worker");
  }

  void abandon() noexcept override { is_abandoned_ = true; }

  void launch(std::uint32_t stream, launcher run, const launch_plan& plan) override {
    const device_scope scope(context_);
    const profiler_range range(name_of(plan.kind));
    if (plan.kind == launch_kind::stream_write) {
      stream_writes_.add(reinterpret_cast<cudaStream_t>(plan.handle), plan.done, plan.done_value);
      return;
    }
    if (plan.kind == launch_kind::event_wait) return wait_for_event(streams_[stream], plan);
    launch_plan here = plan;
    here.stream = streams_[stream];
    if (const char* why = run(here)) throw error(std::string("launching a kernel: ") + why);
  }
  void* stream(std::uint32_t index) override { return streams_[index]; }

  std::uint64_t copies_from() const noexcept override { return by_copy_engine_from; }
  void copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) override {
    if (bytes == 0) return;
    const device_scope scope(context_);
    const profiler_range range("copy", bytes);
    const bool is_to_device = memory_.holds(to);
    copy_way& way = ways_[is_to_device ? 0 : 1];
    const std::lock_guard guard(way.mutex);
    try {
      copy(way, to, from, bytes, is_to_device);
    } catch (...) {
      // Wait for the pieces that have begun, because they must neither access the caller's memory
      // after it was freed nor overlap the next copy.
      (void)cudaStreamSynchronize(way.stream);
      throw;
    }
  }

 private:
  struct staging {
    std::byte* memory = nullptr;
    cudaEvent_t done = nullptr;
  };
  /// Lock, stream and pinned pieces for the copies in one direction: either to the device, or from
  /// it.
  struct copy_way {
    std::mutex mutex;
    cudaStream_t stream = nullptr;
    std::array<staging, 2> pieces;
  };

  void make() {
    // Make the device's context before any other call.
    check(cudaFree(nullptr), "using the device");
    load_kernels();
    stream_writes_.begin(device_);
    int least = 0;
    int greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities");
    // Make the workers' streams first, so that no other stream shares a hardware queue with them.
    for (std::uint32_t i = 0; i < options_.workers; ++i) {
      workers_.emplace_back();
      check(cudaStreamCreateWithPriority(&workers_.back(), cudaStreamNonBlocking, greatest),
            "making a stream");
    }
    for (cudaStream_t& s : streams_)
      check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "making a stream");
    for (cudaStream_t& s : gates_)
      check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "making a stream");
    for (copy_way& way : ways_) {
      check(cudaStreamCreateWithFlags(&way.stream, cudaStreamNonBlocking), "making a stream");
      for (staging& s : way.pieces) {
        void* memory = nullptr;
        check(cudaHostAlloc(&memory, staging_piece, cudaHostAllocPortable), "pinning memory");
        s.memory = static_cast<std::byte*>(memory);
        check(cudaEventCreateWithFlags(&s.done, cudaEventDisableTiming), "making an event");
      }
    }
  }

  void wait_for_event(cudaStream_t launches, const launch_plan& plan) {
    auto* const event = reinterpret_cast<cudaEvent_t>(plan.handle);
    const cudaError_t status = cudaEventQuery(event);
    if (status == cudaSuccess) return store_release(plan.gate, plan.gate_value);
    if (status != cudaErrorNotReady) check(status, "waiting for an event");
    check(cudaStreamWaitEvent(launches, event, 0), "waiting for an event");
    // Let a separate stream wait for the event and write the word. In the launches' stream, the
    // word would be written only after earlier launches have ended.
    const std::lock_guard guard(gate_mutex_);
    cudaStream_t gate = free_gate();
    check(cudaStreamWaitEvent(gate, event, 0), "waiting for an event");
    stream_writes_.add(gate, plan.gate, plan.gate_value);
  }

  /// Returns a stream that waits for no event. If all streams are waiting, returns one of them. The
  /// caller's event then seems to complete only when the event that this stream already waits for
  /// has completed.
  [[nodiscard]] cudaStream_t free_gate() noexcept {
    for (cudaStream_t s : gates_) {
      if (cudaStreamQuery(s) == cudaSuccess) return s;
    }
    return gates_[next_gate_++ % gates_.size()];
  }

  static void refuse_blocking_launches() {
    if (const char* blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
        blocking != nullptr && std::strcmp(blocking, "0") != 0) {
      throw error(
          "CUDA_LAUNCH_BLOCKING is set, so a launch waits for its kernel, and workers stay; "
          "unset it to call GPUs");
    }
  }

  void find_device() const {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaErrorInsufficientDriver) {
      int driver = 0;
      int runtime = 0;
      (void)cudaDriverGetVersion(&driver);
      (void)cudaRuntimeGetVersion(&runtime);
      (void)cudaGetLastError();
      throw error(driver == 0
                      ? "there is no NVIDIA driver on this machine"
                      : "the NVIDIA driver is too old: it knows CUDA " + version_text(driver) +
                            ", and this program was built with " + version_text(runtime));
    }
    check(status, "looking for GPUs");
    if (device_ >= count) {
      throw error("there is no GPU " + std::to_string(device_) + ": this machine has " +
                  std::to_string(count) + ", counted from 0");
    }
  }

  /// Loads the code of all kernels before a worker runs. CUDA would otherwise load a kernel's code
  /// at the kernel's first launch, and might wait until the device is idle.
  void load_kernels() const {
    load_worker();
    cudaFuncAttributes attributes{};
    for (const void* kernel : options_.launched)
      check(cudaFuncGetAttributes(&attributes, kernel), "loading a kernel's code");
  }

  void load_worker() const {
    cudaFuncAttributes attributes{};
    const cudaError_t status = cudaFuncGetAttributes(&attributes, options_.kernel);
    if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction) {
      (void)cudaGetLastError();
      cudaDeviceProp properties{};
      (void)cudaGetDeviceProperties(&properties, device_);
      throw error("this program has no code for " + std::string(properties.name) + " (sm_" +
                  std::to_string(properties.major) + std::to_string(properties.minor) +
                  "); build it with CMAKE_CUDA_ARCHITECTURES=" + std::to_string(properties.major) +
                  std::to_string(properties.minor));
    }
    check(status, "loading the workers' code");
    if (attributes.maxThreadsPerBlock < static_cast<int>(options_.threads)) {
      throw error("functions of this program need so many registers that a team has at most " +
                  std::to_string(attributes.maxThreadsPerBlock) + " threads, not " +
                  std::to_string(options_.threads) +
                  "; say threads=" + std::to_string(attributes.maxThreadsPerBlock / 32 * 32) +
                  ", or compile with -maxrregcount");
    }
    // Raise the limit of dynamic shared memory for the worker's kernel. The default limit leaves
    // too little memory if the program's functions have __shared__ variables of their own.
    const cudaError_t asked =
        cudaFuncSetAttribute(options_.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(options_.kernel_memory));
    if (asked == cudaSuccess) return;
    (void)cudaGetLastError();
    throw error("functions of this program have " + std::to_string(attributes.sharedSizeBytes) +
                " bytes of __shared__ variables, beside which a worker's " +
                std::to_string(options_.kernel_memory) + " do not fit: " + text_of(asked));
  }

  [[nodiscard]] static std::string activity_of(cudaStream_t stream) {
    const cudaError_t status = cudaStreamQuery(stream);
    if (status == cudaSuccess) return "idle";
    if (status == cudaErrorNotReady) return "busy";
    (void)cudaGetLastError();
    return cudaGetErrorName(status);
  }

  /// Returns CUDA's attributes of an address: the source of a copy to this device, or the
  /// destination of a copy from it.
  [[nodiscard]] static cudaPointerAttributes attributes_of(std::uint64_t address) {
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, reinterpret_cast<const void*>(address)) !=
        cudaSuccess) {
      (void)cudaGetLastError();
      attributes.type = cudaMemoryTypeUnregistered;
    }
    return attributes;
  }

  static void finish(const copy_way& way) {
    // Spin instead of sleeping: copies that are long enough for a sleep are rare, and waking up
    // takes longer than most copies.
    cudaError_t status = cudaStreamQuery(way.stream);
    while (status == cudaErrorNotReady) {
      spin_pause();
      status = cudaStreamQuery(way.stream);
    }
    check(status, "copying");
  }

  void copy(copy_way& way, std::uint64_t to, std::uint64_t from, std::uint64_t bytes,
            bool is_to_device) const {
    const cudaPointerAttributes other = attributes_of(is_to_device ? from : to);
    const bool is_pageable = other.type == cudaMemoryTypeUnregistered;
    if (bytes >= staged_from && is_pageable && is_to_device)
      return copy_in(way, to, reinterpret_cast<const std::byte*>(from), bytes);
    if (bytes >= staged_from && is_pageable)
      return copy_out(way, reinterpret_cast<std::byte*>(to), from, bytes);
    if (other.type == cudaMemoryTypeDevice && other.device != device_) {
      // The copy is direct if the devices are peers; otherwise CUDA copies through the host's
      // memory.
      check(cudaMemcpyPeerAsync(reinterpret_cast<void*>(to), is_to_device ? device_ : other.device,
                                reinterpret_cast<const void*>(from),
                                is_to_device ? other.device : device_, bytes, way.stream),
            "copying");
    } else {
      check(cudaMemcpyAsync(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes,
                            cudaMemcpyDefault, way.stream),
            "copying");
    }
    finish(way);
  }

  static void copy_in(copy_way& way, std::uint64_t to, const std::byte* from, std::uint64_t bytes) {
    unsigned turn = 0;
    for (std::uint64_t done = 0; done < bytes; done += staging_piece, ++turn) {
      const std::uint64_t n = std::min(staging_piece, bytes - done);
      staging& s = way.pieces[turn % way.pieces.size()];
      check(cudaEventSynchronize(s.done), "copying");
      copy_bytes(s.memory, from + done, n);
      check(cudaMemcpyAsync(reinterpret_cast<void*>(to + done), s.memory, n, cudaMemcpyHostToDevice,
                            way.stream),
            "copying");
      check(cudaEventRecord(s.done, way.stream), "copying");
    }
    finish(way);
  }

  static void copy_out(copy_way& way, std::byte* to, std::uint64_t from, std::uint64_t bytes) {
    const auto fetch = [&](std::uint64_t done, unsigned turn) {
      staging& s = way.pieces[turn % way.pieces.size()];
      const std::uint64_t n = std::min(staging_piece, bytes - done);
      check(cudaMemcpyAsync(s.memory, reinterpret_cast<const void*>(from + done), n,
                            cudaMemcpyDeviceToHost, way.stream),
            "copying");
      check(cudaEventRecord(s.done, way.stream), "copying");
    };
    fetch(0, 0);
    unsigned turn = 0;
    for (std::uint64_t done = 0; done < bytes; done += staging_piece, ++turn) {
      if (done + staging_piece < bytes) fetch(done + staging_piece, turn + 1);
      const staging& s = way.pieces[turn % way.pieces.size()];
      check(cudaEventSynchronize(s.done), "copying");
      copy_bytes(to + done, s.memory, std::min(staging_piece, bytes - done));
    }
  }

  /// Releases all resources that exist. Also called if the constructor has failed halfway, so that
  /// some resources do not exist.
  void give_back() noexcept {
    const auto end = [](cudaStream_t s) {
      if (s == nullptr) return; // skip null, which CUDA takes for its default stream
      (void)cudaStreamSynchronize(s);
      (void)cudaStreamDestroy(s);
    };
    std::for_each(workers_.begin(), workers_.end(), end);
    std::for_each(streams_.begin(), streams_.end(), end);
    std::for_each(gates_.begin(), gates_.end(), end);
    for (copy_way& way : ways_) {
      end(way.stream);
      for (const staging& s : way.pieces) {
        if (s.done != nullptr) (void)cudaEventDestroy(s.done);
        if (s.memory != nullptr) (void)cudaFreeHost(s.memory);
      }
    }
    memory_.give_back();
    for (void* table : tables_)
      (void)cudaFree(table);
    for (void* memory : shared_)
      (void)cudaFreeHost(memory);
  }

  gpu_options options_;
  int device_;
  CUcontext context_ = nullptr;
  gpu_memory memory_;
  stream_writes stream_writes_;
  std::vector<cudaStream_t> workers_;
  std::array<cudaStream_t, launch_streams> streams_{};
  std::mutex gate_mutex_;
  /// Streams that wait for the program's events. There are only two, since hardware queues are few.
  std::array<cudaStream_t, 2> gates_{};
  std::size_t next_gate_ = 0;
  std::array<copy_way, 2> ways_;
  std::vector<void*> shared_;
  std::vector<void*> tables_;
  bool is_abandoned_ = false;
};

} // namespace

std::unique_ptr<device_api> make_gpu_device(const gpu_options& o) {
  return std::make_unique<gpu_device>(o);
}

void with_device(std::uint32_t device, const std::function<void()>& what) {
  const device_scope scope(context_of(static_cast<int>(device)));
  what();
}

std::uint64_t read_device_symbol(const void* symbol) {
  std::uint64_t value = 0;
  check(cudaMemcpyFromSymbol(&value, symbol, sizeof value), "asking for a function's address");
  // Refuse numbers that cannot be the address of code. In a program that is optimised as a whole,
  // CUDA gives functions small numbers instead of addresses, 8 apart, which only their own kernel
  // can use. But an instruction takes 16 bytes, and no function is at the very start of memory.
  if (value % 16 != 0 || value < 128) {
    throw error(
        "functions of this program have no addresses on devices: all of its code for GPUs " +
        std::string("was linked with -dlto, or compiled without -rdc=true"));
  }
  return value;
}

void write_device_symbol(const void* symbol, std::uint32_t value) {
  check(cudaMemcpyToSymbol(symbol, &value, sizeof value), "telling the device a function's key");
}

} // namespace farcall::cuda
