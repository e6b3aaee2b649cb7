// SPDX-License-Identifier: Apache-2.0

// Checks in a second or two that the device can be called.

#include "kill.hpp"
#include "session.hpp"
#include "smoke.hpp"

#include <bench/gpu/functions.hpp>

#include <chrono>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <thread>

namespace farcall::bench {

FARCALL_HOST_DEVICE void double_all(remote_span<std::uint32_t> values) {
  const device::whole_grid all = device::this_grid();
  for (std::size_t i = all.rank(); i < values.size(); i += all.size())
    values.data()[i] *= 2;
}

std::uint64_t host_square(std::uint64_t n) { return n * n; }
FARCALL_HOST_DEVICE std::uint64_t square_by_host(std::uint64_t n) {
  return device::call_host(fn<host_square>, n);
}

/// Runs until the process ends.
FARCALL_HOST_DEVICE void spin_for_ever() {
#ifdef FARCALL_ON_GPU
  // The loop sleeps, since a compiler may remove a loop without effect.
  for (;;)
    __nanosleep(1000);
#else
  for (;;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
#endif
}

namespace {

void say(watchdog& watch, const char* what, bool is_right) {
  std::printf("smoke: %-40s %s\n", what, is_right ? "ok" : "WRONG");
  (void)std::fflush(stdout);
  if (!is_right) throw std::runtime_error(std::string("wrong: ") + what);
  watch.expect(std::string("what comes behind ") + what);
}

template <std::size_t Bytes>
bool echoes(const node& device) {
  gpu::block<Bytes> b{};
  for (std::uint32_t i = 0; i < 100; ++i) {
    b = sync(device, device_fn<gpu::raised<Bytes>>, b);
    for (const std::uint32_t word : b.words)
      if (word != i + 1) return false;
  }
  return true;
}

} // namespace

int smoke(const options& o) {
  watchdog watch{std::chrono::seconds(o.timeout_s)};
  const watched_job j(o.target, watch);
  const node device = j.device();
  const node_description d = device.description();
  std::printf("smoke: %s, %s, %s\n", d.transport.c_str(), d.architecture.c_str(), d.route.c_str());
  sync(device.within(first_call_timeout), pure_fn<gpu::nothing>);
  say(watch, "an empty call", true);
  gpu::block<64> b{};
  std::iota(std::begin(b.words), std::end(b.words), 1U);
  say(watch, "64 bytes in, 8 out", sync(device, pure_fn<gpu::sum_of>, b) == 136);
  say(watch, "64 bytes each way", echoes<64>(device));
  say(watch, "256 bytes each way", echoes<256>(device));
  say(watch, "1024 bytes each way", echoes<1024>(device));
  say(watch, "a call of the host", sync(device, device_fn<square_by_host>, 12U) == 144);
  std::vector<std::uint32_t> values(100'000);
  std::iota(values.begin(), values.end(), 0U);
  const buffer<std::uint32_t> there = device.allocate<std::uint32_t>(values.size());
  put(values, there).get();
  async(device, grid{.blocks = 20}, device_fn<double_all>, there.span()).get();
  std::vector<std::uint32_t> back(values.size());
  get(there, back).get();
  for (std::uint32_t& value : values)
    value *= 2;
  say(watch, "put, a grid, get", back == values);
  device::quiesce(device);
  say(watch, "a call after the workers have left", sync(device, pure_fn<gpu::sum_of>, b) == 136);
  return 0;
}

// ---- roles of processes that kill.cpp starts
// -----------------------------------------------------

namespace {

void say_to_parent() {
  std::printf("+");
  (void)std::fflush(stdout);
}

void make_one_call(const node& device) {
  sync(device.within(first_call_timeout), pure_fn<gpu::nothing>);
  say_to_parent();
}

} // namespace

int hold_device(const options& o) {
  const job j(job_options{.targets = o.target});
  const node device = j.targets().front();
  device::pin_resident(device);
  std::vector<lane> lanes;
  for (std::uint32_t i = 0; i < device.description().workers; ++i) {
    lanes.emplace_back(device);
    sync(lanes.back(), pure_fn<gpu::nothing>);
  }
  make_one_call(device);
  // If the process that should kill this one has gone, end normally and so free the device.
  std::this_thread::sleep_for(std::chrono::seconds(60));
  return 0;
}

int call_once(const options& o) {
  const job j(job_options{.targets = o.target});
  make_one_call(j.targets().front());
  return 0;
}

int spin_and_give_up(const options& o) {
  watchdog watch{std::chrono::seconds(o.timeout_s)};
  const watched_job j(o.target, watch);
  const node device = j.device();
  sync(device.within(first_call_timeout), pure_fn<gpu::nothing>);
  try {
    sync(device.within(std::chrono::milliseconds(500)), device_fn<spin_for_ever>);
  } catch (const timeout&) {
    j.diagnose();
    device::give_up(device);
    say_to_parent();
    return 0;
  }
  throw std::runtime_error("a handler that never ends has ended");
}

int exit_with_workers(const options& o) {
  const auto* const j = new job(job_options{.targets = o.target});
  const node device = j->targets().front();
  device::pin_resident(device);
  make_one_call(device);
  return 0;
}

} // namespace farcall::bench
