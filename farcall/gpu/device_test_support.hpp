// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/gpu/device.hpp>
#include <farcall/gpu/device_calls.hpp>
#include <farcall/gpu/make_device.hpp>
#include <farcall/gpu/transport/emulated.hpp>
#include <farcall/gpu/transport/find_gpus.hpp>
#include <farcall/offload/job_state.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

/// Functions that tests call on devices, and queries of the tests.
namespace farcall::device_tests {

using namespace std::chrono_literals;
using test::text_thrown_by;
using test::thrown_by;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct point {
  double x;
  std::int32_t n;
};

FARCALL_HOST_DEVICE inline void nothing() {}
FARCALL_HOST_DEVICE inline double add(double a, double b) { return a + b; }
FARCALL_HOST_DEVICE inline point moved(const point& p, std::int8_t by) {
  return {p.x + by, p.n + 1};
}
FARCALL_HOST_DEVICE inline bool negate(bool b) { return !b; }

template <std::size_t N>
struct block_of {
  std::array<std::uint32_t, N> words;
};
template <std::size_t N>
FARCALL_HOST_DEVICE block_of<N> turned(block_of<N> b) {
  for (std::size_t i = 0; 2 * i + 1 < N; ++i) {
    const std::uint32_t kept = b.words[i];
    b.words[i] = b.words[N - 1 - i];
    b.words[N - 1 - i] = kept;
  }
  return b;
}

/// Divides the work among all threads of a team; each thread writes its own elements only.
FARCALL_HOST_DEVICE inline std::uint64_t square_all(remote_span<std::uint64_t> values) {
  const device::team t = device::this_team();
  for (std::size_t i = t.rank(); i < values.size(); i += t.size())
    values.data()[i] *= values.data()[i];
  t.sync();
  std::uint64_t sum = 0;
  if (t.rank() == 0) {
    for (std::size_t i = 0; i < values.size(); ++i)
      sum += values.data()[i];
  }
  return sum;
}

/// Divides the work like square_all(), without data shared between threads. Returns the number of
/// threads.
FARCALL_HOST_DEVICE inline std::uint32_t count_up(remote_span<std::uint32_t> values) {
  const device::team t = device::this_team();
  for (std::size_t i = t.rank(); i < values.size(); i += t.size())
    values.data()[i] += 1;
  t.sync();
  return t.size();
}

FARCALL_HOST_DEVICE inline void add_to_all(remote_span<float> values, float what) {
  const device::whole_grid all = device::this_grid();
  for (std::size_t i = all.rank(); i < values.size(); i += all.size())
    values.data()[i] += what;
}

/// Each block adds its number and the number of blocks to its own part.
FARCALL_HOST_DEVICE inline void number_blocks(remote_span<std::uint32_t> values, std::size_t each) {
  const device::whole_grid all = device::this_grid();
  const device::team t = device::this_team();
  const remote_span<std::uint32_t> own = values.subspan(all.block() * each, each);
  for (std::size_t i = t.rank(); i < own.size(); i += t.size())
    own[i] += 1000 * all.blocks() + all.block();
}

/// Reads memory of any device that this one can access.
FARCALL_HOST_DEVICE inline double value_at(std::uint64_t address) {
  return *reinterpret_cast<const double*>(address);
}

// ---- calls to the host

inline std::atomic<int> posted{0};
inline std::int64_t host_square(std::int32_t n) {
  if (n < 0) throw std::out_of_range("no square of " + std::to_string(n));
  return std::int64_t{n} * n;
}
inline void host_fail(std::uint32_t characters) {
  throw std::out_of_range(std::string(characters, 'x'));
}
inline void count_one() { ++posted; }

FARCALL_HOST_DEVICE inline std::int64_t sum_of_squares(std::int32_t n) {
  std::int64_t sum = 0;
  for (std::int32_t i = 1; i <= n; ++i)
    sum += device::call_host(fn<host_square>, i);
  return sum;
}
FARCALL_HOST_DEVICE inline std::int64_t square_there(std::int32_t n) {
  return device::call_host(fn<host_square>, n);
}
FARCALL_HOST_DEVICE inline void fail_there(std::uint32_t characters) {
  device::call_host(fn<host_fail>, characters);
}
FARCALL_HOST_DEVICE inline void count_there(std::int32_t n) {
  for (std::int32_t i = 0; i < n; ++i)
    device::post_host(fn<count_one>);
}
/// Returns more bytes than fit a slot.
inline block_of<128> host_block(std::uint32_t n) {
  block_of<128> b{};
  b.words.fill(n);
  return b;
}
FARCALL_HOST_DEVICE inline std::uint32_t sum_of_host_blocks(std::uint32_t n) {
  std::uint32_t sum = 0;
  for (std::uint32_t i = 1; i <= n; ++i) {
    const block_of<128> b = device::call_host(fn<host_block>, i);
    if (b.words[0] != b.words[127]) return 0;
    sum += b.words[64];
  }
  return sum;
}
/// Fails on all threads of a team, in any order.
FARCALL_HOST_DEVICE inline int refuse_by_all(int n) {
  if (n < 0) device::fail("a negative number, as all of the team have found");
  return n;
}
FARCALL_HOST_DEVICE inline int refuse(int n) {
  if (n < 0) device::fail("a negative number");
  return n;
}

// ---- failure

/// Fails like a GPU after a trap, or an access to unmapped memory.
FARCALL_HOST_DEVICE inline void trap() {
#ifdef FARCALL_ON_GPU
  cuda::trap();
#else
  throw cuda::emulated_fault{"an illegal memory access was encountered (emulated)"};
#endif
}

inline std::atomic<bool> may_end{false};
inline std::atomic<bool> has_begun{false}; ///< on the emulated device
FARCALL_HOST_DEVICE inline void run_until_allowed() {
#ifdef FARCALL_ON_GPU
  for (;;) {
  }
#else
  has_begun = true;
  while (!may_end.load())
    std::this_thread::yield();
#endif
}

/// Returns the lines of diagnose() for a device.
inline std::string diagnosis_of(const node& device) {
  std::string text;
  detail::device_of(*detail::state_of(*device.job()).members, device.id())
      ->diagnose([&](const std::string& line) { text += line + '\n'; });
  return text;
}

/// Returns why tests have no GPU; empty if they have one. Programs with a fake GPU replace it.
inline std::string (*why_no_gpu)() = [] {
  const cuda::gpus_found found = cuda::find_gpus();
  return found.gpus.empty() ? found.why_none : std::string();
};

} // namespace farcall::device_tests
