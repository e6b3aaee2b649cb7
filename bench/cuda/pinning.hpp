#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <pthread.h>
#include <sched.h>

namespace farcall::bench {

[[nodiscard]] inline std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0)
    throw std::runtime_error("cannot ask for the processors that may be used");
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

/// Takes off, as long as it lives, what the calling thread is bound to: threads and processes that
/// it starts would be bound to the same.
class unbound {
 public:
  explicit unbound(const std::vector<int>& cpus) {
    (void)::pthread_getaffinity_np(::pthread_self(), sizeof before_, &before_);
    cpu_set_t all;
    CPU_ZERO(&all);
    for (const int cpu : cpus)
      CPU_SET(static_cast<std::size_t>(cpu), &all);
    (void)::pthread_setaffinity_np(::pthread_self(), sizeof all, &all);
  }
  unbound(const unbound&) = delete;
  unbound& operator=(const unbound&) = delete;
  ~unbound() { (void)::pthread_setaffinity_np(::pthread_self(), sizeof before_, &before_); }

 private:
  cpu_set_t before_{};
};

/// Binds the calling thread to one of them.
inline void pin_this_thread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (::pthread_setaffinity_np(::pthread_self(), sizeof set, &set) != 0)
    throw std::runtime_error("cannot bind a thread to processor " + std::to_string(cpu));
}

} // namespace farcall::bench
