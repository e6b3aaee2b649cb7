// SPDX-License-Identifier: Apache-2.0
#include <ham/util/cpu_affinity.hpp>

#include <farcall/base/log.hpp>

#include <string>

#include <sched.h>

namespace ham::util {

bool detail::pin_to(int core) noexcept {
  if (core < 0 || core >= CPU_SETSIZE) return false;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(core), &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

void set_cpu_affinity(int core) {
  if (detail::pin_to(core)) return;
  farcall::log::warning("this process may not run on processor " + std::to_string(core) +
                        "; it stays where it is");
}

} // namespace ham::util
