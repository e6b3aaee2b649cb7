// SPDX-License-Identifier: Apache-2.0

// Calls of resident workers, one after the other.

#include "session.hpp"

#include <bench/gpu/functions.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace farcall::bench {

std::uint64_t add_one(std::uint64_t n) { return n + 1; }

FARCALL_HOST_DEVICE std::uint64_t ask_host(std::uint32_t times) {
  std::uint64_t n = 0;
  for (std::uint32_t i = 0; i < times; ++i)
    n = device::call_host(fn<add_one>, n);
  return n;
}

namespace {

template <std::size_t Bytes>
void measure_payload(session& s, const node& device) {
  gpu::block<Bytes> b{};
  const std::string rival = "copy + launch + copy, " + std::to_string(Bytes) + " B each way";
  s.latency("call, " + std::to_string(Bytes) + " B each way",
            [&] { b = sync(device, pure_fn<gpu::raised<Bytes>>, b); }, {.against = rival});
  if (b.words[0] == 0 || b.words[0] != b.words[Bytes / 4 - 1])
    throw std::runtime_error("a call has returned a wrong result");
}

void measure_host_calls(session& s, const node& device) {
  constexpr std::uint32_t many = 64;
  const std::size_t samples = std::min<std::size_t>(s.asked.samples, s.asked.choose(20'000, 2000));
  s.latency("call whose handler calls the host once",
            [&] { (void)sync(device, device_fn<ask_host>, 1U); }, {.samples = samples});
  std::vector<double> each = gpu::sample(samples / 10, [&] {
    if (sync(device, device_fn<ask_host>, many) != many)
      throw std::runtime_error("calls of the host have returned wrong results");
  });
  for (double& ns : each)
    ns /= many;
  s.out.add_call("call_host, there and back (64 in one handler)", std::move(each));
}

} // namespace

void measure_calls(session& s) {
  s.out.begin("calls");
  const watched_job j = s.start(1);
  const node device = j.device();
  sync(device.within(first_call_timeout), pure_fn<gpu::nothing>);
  s.latency("empty call, fc::pure_fn", [&] { sync(device, pure_fn<gpu::nothing>); });
  s.latency("empty call, fc::device_fn", [&] { sync(device, device_fn<gpu::nothing>); });
  gpu::block<64> b{};
  b.words[3] = 5;
  std::uint64_t sum = 0;
  s.latency("call, 64 B in, 8 B out", [&] { sum = sync(device, pure_fn<gpu::sum_of>, b); });
  if (sum != 5) throw std::runtime_error("a call has summed up wrongly");
  measure_payload<64>(s, device);
  measure_payload<256>(s, device);
  measure_payload<1024>(s, device);
  measure_host_calls(s, device);
}

} // namespace farcall::bench
