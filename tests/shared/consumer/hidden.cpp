// SPDX-License-Identifier: Apache-2.0

// A program with hidden symbols that links the shared library. Tests that objects that must be
// unique in a process are unique.

#include "check.hpp"

#include <farcall/farcall.hpp>
#include <farcall/gpu/gpu.hpp>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace fc = farcall;

namespace {

int twice(int v) { return 2 * v; }

// The library writes the node number and the context of a handler, and inline code in this program
// reads them.
fc::node_id own_number() { return fc::this_node().id(); }
double sum_in_place(fc::remote_span<const double> all) {
  double sum = 0;
  for (const double v : all)
    sum += v;
  return sum;
}
int ask_host(int v) { return fc::sync(fc::host(), twice, v) + 1; }
void throw_range() { throw std::out_of_range("too far"); }
std::string bounce(std::string s) { return s; }

// Runs on a thread of an emulated device, and reads its place in the grid.
void fill(fc::remote_span<int> all) {
  const auto grid = fc::device::this_grid();
  all[grid.block()] = static_cast<int>(10 * grid.blocks() + grid.block());
}

template <class E, class F>
bool throws(F&& f) {
  try {
    f();
  } catch (const E&) {
    return true;
  }
  return false;
}

} // namespace

int main() {
  const fc::job job(fc::job_options{.targets = "shm:2"});
  const fc::node target = job.targets()[0];
  const fc::node other = job.targets()[1];

  CHECK(fc::sync(target, own_number) == 1);
  CHECK(fc::sync(other, own_number) == 2);
  const auto memory = target.allocate<double>(100);
  fc::put_sync(std::vector<double>(100, 0.5), memory);
  CHECK(fc::sync(target, sum_in_place, memory.span()) == 50);
  CHECK(throws<fc::remote_error>([&] { fc::sync(other, sum_in_place, memory.span()); }));
  CHECK(throws<fc::wrong_node>([&] { (void)memory.data(); }));
  CHECK(fc::sync(target, ask_host, 4) == 9);
  CHECK(fc::sync(target, bounce, std::string(1 << 20, 'x')).size() == 1 << 20);

  // The program catches the library's errors by their types.
  CHECK(throws<fc::remote_error>([&] { fc::sync(target, throw_range); }));
  CHECK(throws<fc::error>([&] { fc::sync(target, throw_range); }));
  CHECK(
      throws<fc::setting_error>([] { const fc::job bad(fc::job_options{.targets = "nothing:"}); }));
  // The function ends when the host has written to its memory, so that the call is always late.
  const auto gate = target.allocate<int>(1);
  fc::put_sync(std::vector<int>{0}, gate);
  fc::future<void> late = fc::async(
      target.within(std::chrono::milliseconds(1)),
      [](fc::remote_span<int> closed) {
        while (std::atomic_ref<int>(closed[0]).load() == 0)
          std::this_thread::yield();
      },
      gate.span());
  CHECK(throws<fc::timeout>([&] { late.get(); }));
  fc::put_sync(std::vector<int>{1}, gate);
  CHECK(throws<fc::node_failed>([&] { fc::sync(other, [] { ::_exit(3); }); }));

  // Threads have their own lanes and locks.
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i)
        CHECK(fc::sync(target, twice, i) == 2 * i);
      const fc::lane own(target);
      CHECK(fc::sync(own, twice, 3) == 6);
    });
  }
  for (std::thread& t : threads)
    t.join();
  CHECK(fc::async(target, twice, 1).then([](fc::future<int> f) { return f.get() + 1; }).get() == 3);

  // A thread of an emulated device runs as that device.
  const fc::job devices(fc::job_options{.targets = "cuda-emulated:0"});
  const auto places = devices.targets()[0].allocate<int>(3);
  fc::async(devices.targets()[0], fc::grid{.blocks = 3}, fc::device_fn<fill>, places.span()).get();
  std::vector<int> back(3);
  fc::get_sync(places, back);
  CHECK((back == std::vector{30, 31, 32}));

  // A forked child refuses calls.
  const pid_t child = ::fork();
  if (child == 0) ::_exit(throws<fc::forked>([&] { fc::sync(target, twice, 7); }) ? 0 : 1);
  int status = 1;
  CHECK(::waitpid(child, &status, 0) == child && status == 0);
  CHECK(fc::sync(target, twice, 5) == 10);
  return 0;
}
