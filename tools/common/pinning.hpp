// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sched.h>

namespace farcall::tool {

/// Returns the processors that this process may use by its affinity and its cpusets, in ascending
/// order.
[[nodiscard]] std::vector<int> allowed_cpus();

/// Returns a list of processors in the usual short form, such as "0-3,8".
[[nodiscard]] std::string cpu_list_text(const std::vector<int>& cpus);

/// Binds the calling thread to one processor. Throws failed_run if the system refuses it.
void pin_this_thread(int cpu);

/// Binds the calling thread to other processors while this object exists. The destructor restores
/// the processors that the thread could use before.
class scoped_pin {
 public:
  explicit scoped_pin(int cpu);
  /// Binds the calling thread to several processors. Threads and processes that this thread starts
  /// while this object exists inherit the binding.
  explicit scoped_pin(const std::vector<int>& cpus);
  ~scoped_pin();
  scoped_pin(const scoped_pin&) = delete;
  scoped_pin& operator=(const scoped_pin&) = delete;
  scoped_pin(scoped_pin&&) = delete;
  scoped_pin& operator=(scoped_pin&&) = delete;

 private:
  cpu_set_t before_{};
};

/// Value in place of the target's core, for a target that runs on no processor of this machine,
/// such as a GPU.
inline constexpr int no_core = -1;

/// Cores on which the host and the target of a measurement run.
struct core_pair {
  int host = 0;
  int target = 0;
  [[nodiscard]] constexpr bool shared() const { return host == target; }
};

/// Chooses the cores for host and target. A core that the caller gives is kept. A host or target
/// without a given core gets the first allowed core that the other does not use. On an unrestricted
/// machine, the cores are therefore 0 and 1. With a single processor, both get the same core.
/// Throws usage_problem if this process may not use a given core.
[[nodiscard]] core_pair choose_cores(std::optional<int> host, std::optional<int> target);

} // namespace farcall::tool
