// Whether the device can be called at all, in a second or two.

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

namespace {

void say(const char* what, bool is_right) {
  std::printf("smoke: %-40s %s\n", what, is_right ? "ok" : "WRONG");
  (void)std::fflush(stdout);
  if (!is_right) throw std::runtime_error(std::string("wrong: ") + what);
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
  const job j(job_options{.targets = o.target});
  const node device = j.targets().front();
  const node_description d = device.description();
  std::printf("smoke: %s, %s, %s\n", d.transport.c_str(), d.architecture.c_str(), d.route.c_str());
  sync(device.within(first_call_timeout), pure_fn<gpu::nothing>);
  say("an empty call", true);
  gpu::block<64> b{};
  std::iota(std::begin(b.words), std::end(b.words), 1U);
  say("64 bytes in, 8 out", sync(device, pure_fn<gpu::sum_of>, b) == 136);
  say("64 bytes each way", echoes<64>(device));
  say("256 bytes each way", echoes<256>(device));
  say("1024 bytes each way", echoes<1024>(device));
  say("a call of the host", sync(device, device_fn<square_by_host>, 12U) == 144);
  std::vector<std::uint32_t> values(100'000);
  std::iota(values.begin(), values.end(), 0U);
  const buffer<std::uint32_t> there = device.allocate<std::uint32_t>(values.size());
  put(values, there).get();
  async(device, grid{.blocks = 20}, device_fn<double_all>, there.span()).get();
  std::vector<std::uint32_t> back(values.size());
  get(there, back).get();
  for (std::uint32_t& value : values)
    value *= 2;
  say("put, a grid, get", back == values);
  device::quiesce(device);
  say("a call after the workers have left", sync(device, pure_fn<gpu::sum_of>, b) == 136);
  return 0;
}

// ---- processes that measure_kill() starts -------------------------------------------------------

namespace {

void make_one_call(const node& device) {
  sync(device.within(first_call_timeout), pure_fn<gpu::nothing>);
  std::printf("+");
  (void)std::fflush(stdout);
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
  // Should whoever kills us have gone, the device is given back by an ordinary end.
  std::this_thread::sleep_for(std::chrono::seconds(60));
  return 0;
}

int call_once(const options& o) {
  const job j(job_options{.targets = o.target});
  make_one_call(j.targets().front());
  return 0;
}

} // namespace farcall::bench
