// SPDX-License-Identifier: Apache-2.0

// A file without RTTI may use everything except calls, and must not include their header: calls
// know callables by the names of their types.

#include "check.hpp"
#include "with_rtti.hpp"

#include <farcall/async/coroutine.hpp>
#include <farcall/copy/transfer.hpp>
#include <farcall/offload/job.hpp>

#include <vector>

#ifdef __GXX_RTTI
#error "this file is to be compiled without RTTI"
#endif

namespace fc = farcall;

namespace {

fc::future<double> twice_the_sum(const fc::node& where, fc::remote_span<const double> all) {
  co_return 2 * co_await sum_on(where, all);
}

} // namespace

int main() {
  const fc::job job(fc::job_options{.targets = "shm"});
  const fc::node target = job.targets()[0];
  auto memory = target.allocate<double>(100);
  fc::put_sync(std::vector<double>(100, 0.5), memory);
  CHECK(sum_on(target, memory.span()).get() == 50);
  CHECK(
      sum_on(target, memory.span()).then([](fc::future<double> f) { return 2 * f.get(); }).get() ==
      100);
  std::vector<double> back(100);
  fc::get(memory, back).get();
  CHECK(back[99] == 0.5);
  CHECK(fc::map(memory)[0] == 0.5);
  try {
    (void)memory.data();
    CHECK(false);
  } catch (const fc::wrong_node& e) {
    CHECK(e.node() == target.id());
  }
  CHECK(twice_the_sum(target, memory.span()).get() == 100);
  CHECK(target.alive());
  return 0;
}
