#pragma once

#include <farcall/am/stop_state.hpp>
#include <farcall/base/counted.hpp>
#include <farcall/base/fork.hpp>
#include <farcall/base/node_id.hpp>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace farcall::am {

/// The calls of other nodes, and of this one to itself, that their callers can stop: those that
/// have begun here, and those of which a stop has come before they have begun. Calls are known by
/// their origin and the number that it has given them. Any thread may use it.
class stoppable_calls final : public counted, private fork_observer {
 public:
  /// Throws std::bad_alloc.
  stoppable_calls() { watch_forks(); }
  ~stoppable_calls() override { unwatch_forks(); }

  /// A call begins. Null when it was stopped before: then it is not run. Throws std::bad_alloc.
  [[nodiscard]] counted_ptr<stop_state> begin(node_id origin, std::uint64_t id);
  /// It has replied.
  void end(const stop_state& call) noexcept;

  /// Tells a call that has begun; any other is not going to begin until it is forgotten. Runs those
  /// that listen on the calling thread.
  void stop(node_id origin, std::uint64_t id) noexcept;
  /// A call that was stopped has ended: the stop may have come too late, and found nothing.
  void forget(node_id origin, std::uint64_t id) noexcept;

  /// The node has failed. Returns its calls that have begun, in the order of their numbers; nobody
  /// has told them yet. Throws std::bad_alloc.
  [[nodiscard]] std::vector<counted_ptr<stop_state>> drop_calls_of(node_id origin);

  /// How many calls it knows.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  /// A node that never says what may be forgotten shall not fill the memory.
  static constexpr std::size_t most_stopped = std::size_t{1} << 20;

  using name = std::pair<node_id, std::uint64_t>;
  using place = counted_ptr<stop_state>;

  /// Of those that are found there. With the mutex, as the next two.
  [[nodiscard]] place& first_of(node_id origin, std::uint64_t id) noexcept;
  /// Where the call is; else the null at the end of those beside it.
  [[nodiscard]] place& find(node_id origin, std::uint64_t id) noexcept;
  void grow();

  // A handler may fork, and then return, or give its reply, in the child: what it uses there must
  // be whole.
  void before_fork() noexcept override;
  void after_fork_in_parent() noexcept override;
  void after_fork_in_child() noexcept override;
  template <class F>
  void for_each_begun(const F& f) noexcept;

  mutable std::mutex mutex_;
  std::vector<place> begun_; ///< a power of two; each the first of a list
  std::size_t size_ = 0;     ///< of these calls
  std::set<name> stopped_;   ///< before they have begun
};

} // namespace farcall::am
