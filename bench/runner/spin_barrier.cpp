// SPDX-License-Identifier: Apache-2.0
#include "spin_barrier.hpp"
#include "spin.hpp"

#include <tools/common/pinning.hpp>

#include <thread>

namespace farcall::tool {

void spin_barrier::open_if_complete() {
  if (arrived_ != expected_) return;
  arrived_ = 0;
  phase_.fetch_add(1, std::memory_order_release); // pairs with the acquire in arrive_and_wait()
}

void spin_barrier::arrive_and_wait() {
  std::size_t phase = 0;
  {
    const std::lock_guard lock{mutex_};
    phase = phase_.load(std::memory_order_relaxed); // grows under the lock only
    ++arrived_;
    open_if_complete();
  }
  constexpr int spins_between_yields = 100;
  for (int spins = 1; phase_.load(std::memory_order_acquire) == phase; ++spins) {
    if (spins % spins_between_yields == 0) {
      std::this_thread::yield();
    } else {
      spin_pause();
    }
  }
}

void spin_barrier::arrive_and_drop() {
  const std::lock_guard lock{mutex_};
  --expected_;
  open_if_complete();
}

void run_together(std::size_t threads, const std::vector<int>& cpus, spin_barrier& barrier,
                  const std::function<void(std::size_t)>& body) {
  if (threads == 1) {
    body(0);
    return;
  }
  std::vector<std::exception_ptr> thrown(threads);
  std::vector<std::jthread> all;
  for (std::size_t t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      try {
        const scoped_pin bound{cpus[t % cpus.size()]};
        body(t);
      } catch (...) {
        thrown[t] = std::current_exception();
      }
      barrier.arrive_and_drop();
    });
  }
  all.clear(); // joins
  for (const std::exception_ptr& e : thrown) {
    if (e) std::rethrow_exception(e);
  }
}

} // namespace farcall::tool
