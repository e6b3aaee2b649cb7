#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sched.h>

namespace farcall::tool {

/// Processors that this process may use (affinity, cpusets), in ascending order.
[[nodiscard]] std::vector<int> allowed_cpus();

/// "0-3,8": the usual short form of a list of processors.
[[nodiscard]] std::string cpu_list_text(const std::vector<int>& cpus);

/// Binds the calling thread to one processor; throws failed_run when it may not use that one.
void pin_this_thread(int cpu);

/// The calling thread is bound to other processors as long as this lives, and then to what it was
/// bound to before.
class scoped_pin {
 public:
  explicit scoped_pin(int cpu);
  /// To some, for threads and processes that it starts meanwhile.
  explicit scoped_pin(const std::vector<int>& cpus);
  ~scoped_pin();
  scoped_pin(const scoped_pin&) = delete;
  scoped_pin& operator=(const scoped_pin&) = delete;
  scoped_pin(scoped_pin&&) = delete;
  scoped_pin& operator=(scoped_pin&&) = delete;

 private:
  cpu_set_t before_{};
};

/// Instead of the core of a target that has none of this machine: a GPU.
inline constexpr int no_core = -1;

/// Where the two ends of a measurement run.
struct core_pair {
  int host = 0;
  int target = 0;
  [[nodiscard]] constexpr bool shared() const { return host == target; }
};

/// The cores asked for, and for each end that was not asked for the first allowed one that is left:
/// 0 and 1 on an unrestricted machine. With a single processor both are the same. Throws
/// usage_problem for a core that is not there.
[[nodiscard]] core_pair choose_cores(std::optional<int> host, std::optional<int> target);

} // namespace farcall::tool
