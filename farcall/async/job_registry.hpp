// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/node.hpp>
#include <farcall/base/fork.hpp>

#include <cstdint>
#include <mutex>
#include <vector>

namespace farcall::detail {

/// The jobs of this process, for functions such as this_node(), which get no job as an argument. In
/// the child of a fork, the jobs of the parent remain registered, but empty(), has() and only()
/// ignore them. Any thread may use it.
class job_registry : private fork_observer {
 public:
  [[nodiscard]] static job_registry& instance();

  void add(job_core* job);
  void remove(job_core* job);

  [[nodiscard]] bool empty();
  /// Returns true if no jobs are registered. In the child of a fork, the jobs of the parent count.
  [[nodiscard]] bool has_none();
  /// Returns true if this process is the child of a fork, and has only jobs of its parent.
  [[nodiscard]] bool is_in_child() { return !has_none() && empty(); }
  [[nodiscard]] bool has(const job_core* job, std::uint32_t serial);
  /// Returns true if one of the jobs has the mark `mark` (see job_core::mark).
  [[nodiscard]] bool has_marked(std::uint32_t mark);
  /// Returns the only job. Throws error if there is no job, or more than one. Throws forked in the
  /// child of a fork that has only jobs of its parent.
  [[nodiscard]] job_core& only();

 private:
  job_registry();
  /// Updates only_core and only_mark. The caller must hold the mutex.
  void note_only() noexcept;

  void before_fork() noexcept override;
  void after_fork_in_parent() noexcept override;
  void after_fork_in_child() noexcept override;

  std::mutex mutex_;
  std::vector<job_core*> jobs_;
};

} // namespace farcall::detail
