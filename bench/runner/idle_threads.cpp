// SPDX-License-Identifier: Apache-2.0
#include "idle_threads.hpp"
#include "functions.hpp"

namespace farcall::tool {

idle_threads::idle_threads(const node& target, std::size_t count)
    : called_(static_cast<std::ptrdiff_t>(count)) {
  for (std::size_t i = 0; i < count; ++i) {
    threads_.emplace_back("farcall-tool", [this, &target] {
      sync(target, offloaded::nothing);
      called_.count_down();
      end_.wait();
    });
  }
  called_.wait();
}

idle_threads::~idle_threads() {
  end_.count_down();
  for (library_thread& t : threads_)
    t.join();
}

} // namespace farcall::tool
