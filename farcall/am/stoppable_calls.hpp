#pragma once

#include <farcall/am/stop_state.hpp>
#include <farcall/base/counted.hpp>
#include <farcall/base/node_id.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace farcall::am {

/// The calls of other nodes, and of this one to itself, that their callers can stop: those that
/// have begun here, and those of which a stop has come before they have begun. Calls are known by
/// their origin and the number that it has given them. Any thread may use it.
class stoppable_calls : public counted {
 public:
  /// A call begins. Null when it was stopped before: then it is not run. Throws std::bad_alloc.
  [[nodiscard]] counted_ptr<stop_state> begin(node_id origin, std::uint64_t id);
  /// It has replied.
  void end(const stop_state& call) noexcept;

  /// Tells a call that has begun; any other is not going to begin until it is forgotten. Runs those
  /// that listen on the calling thread.
  void stop(node_id origin, std::uint64_t id) noexcept;
  /// A call that was stopped has ended: the stop may have come too late, and found nothing.
  void forget(node_id origin, std::uint64_t id) noexcept;

  /// The node has failed. Returns its calls that have begun; nobody has told them yet. Throws
  /// std::bad_alloc.
  [[nodiscard]] std::vector<counted_ptr<stop_state>> drop_calls_of(node_id origin);

  /// How many calls it knows.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  /// A node that never says what may be forgotten shall not fill the memory.
  static constexpr std::size_t most_stopped = std::size_t{1} << 20;

  using name = std::pair<node_id, std::uint64_t>;

  mutable std::mutex mutex_;
  std::map<name, counted_ptr<stop_state>> calls_; ///< null: stopped, and not begun
  std::size_t stopped_ = 0;                       ///< of these, those that are null
};

} // namespace farcall::am
