// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <chrono>
#include <exception>
#include <random>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace farcall::fake_cuda {

machine& here() {
  static machine m;
  return m;
}

std::map<const void*, kernel>& kernels() {
  static std::map<const void*, kernel> all;
  return all;
}

cudaError_t failing(cudaError_t status) {
  if (status != cudaSuccess) last_error = status;
  return status;
}

namespace {

/// True for functions that CUDA refuses while a stream is captured, because the capture would miss
/// them.
bool is_unsafe_in_capture(const std::string& function) {
  static const std::set<std::string> all = {
      "cudaDeviceSynchronize", "cudaEventQuery",     "cudaEventSynchronize", "cudaFree",
      "cudaFreeHost",          "cudaHostAlloc",      "cudaMalloc",           "cudaMemcpy",
      "cudaMemcpyFromSymbol",  "cudaMemcpyToSymbol", "cudaMemset",           "cudaStreamQuery",
      "cudaStreamSynchronize"};
  return all.contains(function);
}

/// True for calls of the runtime that make a context on the thread's device, like almost all.
bool makes_context(const std::string& function) {
  static const std::set<std::string> others = {"cudaDeviceGetPCIBusId",
                                               "cudaGetDevice",
                                               "cudaGetDeviceCount",
                                               "cudaGetDeviceProperties",
                                               "cudaGetDriverEntryPointByVersion",
                                               "cudaSetDevice"};
  return function.starts_with("cuda") && !others.contains(function);
}

} // namespace

std::optional<cudaError_t> begins(const char* function) {
  machine& m = here();
  const std::lock_guard guard(m.mutex);
  ++m.calls;
  if (makes_context(function)) m.with_context.insert(device_in_use());
  if (m.once.call != 0 && m.calls == m.once.call) {
    m.failed = function;
    return failing(m.once.status);
  }
  if (const auto found = m.always.find(function); found != m.always.end()) {
    m.failed = function;
    return failing(found->second);
  }
  if (const int error = m.context_error.load(); error != cudaSuccess)
    return failing(static_cast<cudaError_t>(error));
  if (!m.captures.empty() && capture_mode != cudaStreamCaptureModeRelaxed &&
      is_unsafe_in_capture(function)) {
    for (auto& [captured, is_spoilt] : m.captures)
      is_spoilt = true;
    return failing(cudaErrorStreamCaptureUnsupported);
  }
  return std::nullopt;
}

stream* find(cudaStream_t handle) {
  machine& m = here();
  const std::lock_guard guard(m.mutex);
  auto* const s = reinterpret_cast<stream*>(handle);
  return m.streams.contains(s) ? s : nullptr;
}
event* find(cudaEvent_t handle) {
  machine& m = here();
  const std::lock_guard guard(m.mutex);
  auto* const e = reinterpret_cast<event*>(handle);
  return m.events.contains(e) ? e : nullptr;
}

void wait_for_idle_device(const char* function) {
  machine& m = here();
  std::vector<stream*> all;
  {
    const std::lock_guard guard(m.mutex);
    if (m.kernels.load() != 0) m.waited.insert(function);
    all.assign(m.streams.begin(), m.streams.end());
  }
  for (stream* const s : all)
    s->wait();
}

void load_kernel(const char* function, const void* name, int device) {
  {
    const std::lock_guard guard(here().mutex);
    if (!here().loaded.insert({name, device}).second) return;
  }
  wait_for_idle_device(function);
}

// ---- streams

stream::stream(int device) : device_(device), thread_([this] { work(); }) {}

stream::~stream() {
  {
    const std::lock_guard guard(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void stream::add(std::function<void()> task) {
  const std::lock_guard guard(mutex_);
  tasks_.push_back(std::move(task));
  ++added_;
  changed_.notify_all();
}

void stream::add_kernel(std::function<void()> run) {
  here().kernels.fetch_add(1);
  add([run = std::move(run)] {
    try {
      // After a fault, skip kernels: on a GPU they would not run, and here they would never end.
      if (here().context_error.load() == cudaSuccess) run();
    } catch (const std::exception&) {
      here().context_error = cudaErrorLaunchFailure;
    } catch (...) {
      here().context_error = cudaErrorIllegalAddress;
    }
    here().kernels.fetch_sub(1);
  });
}

std::uint64_t stream::added() const {
  const std::lock_guard guard(mutex_);
  return added_;
}

void stream::work() {
  std::unique_lock lock(mutex_);
  std::minstd_rand random(static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(this) >> 4));
  for (;;) {
    changed_.wait(lock, [this] { return is_ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    std::int64_t most = 0;
    {
      const std::lock_guard guard(here().mutex);
      most = here().max_delay_us;
    }
    if (most != 0) {
      std::this_thread::sleep_for(
          std::chrono::microseconds(std::uniform_int_distribution<std::int64_t>(0, most)(random)));
    }
    task();
    done_->one_more();
    lock.lock();
  }
}

// ---- life

namespace {

void end_streams() {
  std::set<stream*> all;
  {
    const std::lock_guard guard(here().mutex);
    all = std::exchange(here().streams, {});
  }
  for (stream* const s : all)
    delete s;
}

} // namespace

void free_everything() {
  end_streams();
  machine& m = here();
  const std::lock_guard guard(m.mutex);
  for (event* const e : m.events)
    delete e;
  m.events.clear();
  for (blocks* const all : {&m.pinned, &m.allocated, &m.reserved}) {
    for (const auto& [address, bytes] : all->all())
      ::munmap(reinterpret_cast<void*>(address), bytes);
    all->clear();
  }
  m.captures.clear();
  m.with_context.clear();
  m.loaded.clear();
  m.reserved_by.clear();
  m.mapped.clear();
  m.accessible.clear();
  m.created.clear();
  m.mapped_to.clear();
  m.context_error = cudaSuccess;
}

void begin() {
  free_everything();
  machine& m = here();
  const std::lock_guard guard(m.mutex);
  m.calls = 0;
  m.once = {};
  m.always.clear();
  m.failed.clear();
  m.waited.clear();
  m.max_delay_us = 0;
  m.devices = 1;
  m.are_peers = false;
  m.memory = std::uint64_t{2} << 30;
  m.attributes = {{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
                  {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1},
                  {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1}};
}

void fail_call(std::int64_t number, cudaError_t status) {
  const std::lock_guard guard(here().mutex);
  here().once = {here().calls + number, status};
}
void fail_no_call() {
  const std::lock_guard guard(here().mutex);
  here().once = {};
}
void fail_function(const std::string& name, cudaError_t status) {
  const std::lock_guard guard(here().mutex);
  if (status == cudaSuccess) {
    here().always.erase(name);
  } else {
    here().always[name] = status;
  }
}
void set_most_delay(std::int64_t microseconds) {
  const std::lock_guard guard(here().mutex);
  here().max_delay_us = microseconds;
}
void set_devices(int count) {
  const std::lock_guard guard(here().mutex);
  here().devices = count;
}
void make_peers() {
  const std::lock_guard guard(here().mutex);
  here().are_peers = true;
}
void set_attribute(CUdevice_attribute what, int value) {
  const std::lock_guard guard(here().mutex);
  here().attributes[what] = value;
}
void set_memory(std::uint64_t bytes) {
  const std::lock_guard guard(here().mutex);
  here().memory = bytes;
}

std::string failed_function() {
  const std::lock_guard guard(here().mutex);
  return here().failed;
}
bool can_use(int device, std::uint64_t address, std::uint64_t bytes) {
  const std::lock_guard guard(here().mutex);
  return here().accessible[device].hold(address, bytes);
}
bool is_for_rdma(std::uint64_t address) {
  const std::lock_guard guard(here().mutex);
  const auto next = here().mapped_to.upper_bound(address);
  return next != here().mapped_to.begin() &&
         std::prev(next)->second->properties.allocFlags.gpuDirectRDMACapable != 0;
}
std::string calls_that_waited() {
  const std::lock_guard guard(here().mutex);
  std::string text;
  for (const std::string& name : here().waited)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}
std::set<int> devices_with_context() {
  const std::lock_guard guard(here().mutex);
  return here().with_context;
}
std::string left_behind() {
  machine& m = here();
  const std::lock_guard guard(m.mutex);
  std::string text;
  const auto say = [&text](std::size_t count, const char* what) {
    if (count != 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  say(m.streams.size(), "streams");
  say(m.events.size(), "events");
  say(m.pinned.all().size(), "pinned blocks");
  say(m.allocated.all().size(), "blocks of the device");
  say(m.reserved.all().size(), "ranges of addresses");
  say(m.mapped.all().size(), "mappings");
  say(m.created.size(), "handles of memory");
  return text;
}

void add_kernel(const void* name, std::size_t argument_bytes,
                std::function<void(const void*)> run) {
  kernels()[name] = {argument_bytes, std::move(run)};
}
void enqueue_kernel(const void* name, cudaStream_t on, std::function<void()> run) {
  stream* const s = find(on);
  if (s == nullptr) return;
  if (name != nullptr) load_kernel("cudaLaunchKernel", name, s->device());
  s->add_kernel(std::move(run));
}

} // namespace farcall::fake_cuda
