#pragma once

#include <farcall/am/engine.hpp>
#include <farcall/call/key_resolver.hpp>
#include <farcall/job/membership.hpp>
#include <farcall/memory/counter_segment.hpp>
#include <farcall/offload/collectives.hpp>
#include <farcall/offload/copy_thread.hpp>
#include <farcall/offload/helped_copy.hpp>
#include <farcall/offload/job_service.hpp>
#include <farcall/offload/lost_servers.hpp>
#include <farcall/offload/node.hpp>
#include <farcall/offload/node_watch.hpp>
#include <farcall/offload/pending_transfers.hpp>
#include <farcall/offload/pipelined_copy.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

namespace farcall::detail {

class job_trace;

/// What a job of equals has besides.
struct equals {
  std::thread::id thread = std::this_thread::get_id(); ///< that made it
  int exceptions = 0;                                  ///< in flight when it was made
  bool is_closed = false;
  std::chrono::milliseconds stop_timeout{}; ///< for handlers that wait, at the end
  farcall::detail::collectives collectives;
};

/// Everything that a job is made of in one process. Handles of users point to its core.
struct job_state : job_core {
  job_state() noexcept;
  job_state(const job_state&) = delete;
  job_state& operator=(const job_state&) = delete;
  /// As end(), if that has not been called.
  ~job_state();

  static void* operator new(std::size_t bytes);
  /// Keeps the memory of the last jobs, with a core whose client throws error, for late uses.
  static void operator delete(void* memory) noexcept;

  /// The host waits for copies, targets, and its own handlers to finish, at most for the stop
  /// timeout each; then whatever is left ends. False when code of the user's runs on: then this,
  /// and what it owns, must stay as it is.
  [[nodiscard]] bool end() noexcept;

  /// Waits for large copies and what follows them, which may post, at most for `duration`.
  void finish_copies(std::chrono::milliseconds duration);

  std::chrono::milliseconds release_timeout{}; ///< for the ends of buffers
  std::chrono::milliseconds start_timeout{};   ///< host: for nodes that are added
  std::unique_ptr<membership> members;
  std::shared_ptr<am::engine> engine;
  std::shared_ptr<counter_segment> counters; ///< null where they could not be had
  std::unique_ptr<key_resolver> functions;
  copy_thread copies;
  pipelined_copies pipelined{*this};
  helped_copies helped{*this};
  pending_transfers late_puts; ///< given up at their deadlines
  pending_transfers in_order;  ///< that calls in order wait for
  node_watch watch;            ///< host
  lost_servers returns;        ///< host
  /// What a layer below adds to it, or null. Set before handlers run.
  std::shared_ptr<job_service> service;
  std::unique_ptr<equals> as_equals; ///< null in a plain job
  std::unique_ptr<job_trace> trace;  ///< null where nothing is recorded; ends first

 private:
  bool has_ended_ = false;
};

/// For whoever uses it, not whoever destroys it: throws forked in a child of a fork.
[[nodiscard]] inline job_state& state_of(job_core& core) {
  core.client->require_own_process();
  return static_cast<job_state&>(core);
}

/// The job of the handler that runs, or the only one of the process. Throws error otherwise.
[[nodiscard]] job_state& current_job();

} // namespace farcall::detail
