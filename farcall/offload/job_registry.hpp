#pragma once

#include <farcall/base/fork.hpp>
#include <farcall/offload/job_state.hpp>

#include <cstdint>
#include <mutex>
#include <vector>

namespace farcall::detail {

/// The jobs of this process, for code that asks where it runs without saying in which job. Those of
/// the parent of a fork stay in it, but do not count: they are nobody else's any more. Any thread.
class job_registry : private fork_observer {
 public:
  [[nodiscard]] static job_registry& instance();

  void add(job_state* job);
  void remove(job_state* job);

  [[nodiscard]] bool empty();
  /// Not even of the parent of a fork.
  [[nodiscard]] bool has_none();
  /// A child of a fork has nothing but jobs of its parent, whose numbers are none of its own.
  [[nodiscard]] bool is_in_child() { return !has_none() && empty(); }
  [[nodiscard]] bool has(const job_core* job, std::uint32_t serial);
  /// A job of that mark.
  [[nodiscard]] bool has_marked(std::uint32_t mark);
  /// The only one. Throws error, and forked.
  [[nodiscard]] job_state& only();

 private:
  job_registry();
  /// With the mutex.
  void note_only() noexcept;

  void before_fork() noexcept override;
  void after_fork_in_parent() noexcept override;
  void after_fork_in_child() noexcept override;

  std::mutex mutex_;
  std::vector<job_state*> jobs_;
};

} // namespace farcall::detail
