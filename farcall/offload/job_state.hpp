// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/engine.hpp>
#include <farcall/async/node.hpp>
#include <farcall/call/key_resolver.hpp>
#include <farcall/call/message_table.hpp>
#include <farcall/copy/copy_state.hpp>
#include <farcall/job/members.hpp>
#include <farcall/memory/counter_segment.hpp>
#include <farcall/offload/collectives.hpp>
#include <farcall/offload/job_service.hpp>
#include <farcall/offload/lost_servers.hpp>
#include <farcall/offload/node_watch.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

namespace farcall {

class host_side;
class target_side;

} // namespace farcall

namespace farcall::detail {

class job_trace;

/// State that a process has only in a job of equals.
struct equals {
  std::thread::id thread = std::this_thread::get_id(); ///< thread that made the job
  /// Number of exceptions in flight (std::uncaught_exceptions) when the job was made.
  int exceptions = 0;
  bool is_closed = false;
  /// Time for which the end of the job waits for handlers that still wait.
  std::chrono::milliseconds stop_timeout{};
  farcall::detail::collectives collectives;
};

/// All parts of a job in one process. The program's handles, such as fc::node, point to the base
/// class job_core.
struct job_state : job_core {
  job_state() noexcept;
  job_state(const job_state&) = delete;
  job_state& operator=(const job_state&) = delete;
  /// Calls end(), unless it was called before.
  ~job_state();

  static void* operator new(std::size_t bytes);
  /// Frees the memory only after several more jobs were destroyed, because handles may outlive
  /// their job. Until then the memory contains a job_core whose client throws error.
  static void operator delete(void* memory) noexcept;

  /// Ends the job. On the host, first waits for copies, then for targets, and then for the host's
  /// own handlers, for at most the stop timeout each. Afterwards ends the calls that still wait.
  /// Returns false if code of the program still runs, so that this object and its members must not
  /// be destroyed.
  [[nodiscard]] bool end() noexcept;

  /// Calls `f` with the host_side if this process is the host, and otherwise with the target_side.
  template <class F>
  void on_side(const F& f) {
    if (host) {
      f(*host);
    } else {
      f(*target);
    }
  }

  /// Returns the descriptor that job::wait_fd() describes. Throws what that function throws.
  [[nodiscard]] int wait_fd();

  /// On the host: maximum time in which an added node must join.
  std::chrono::milliseconds start_timeout{};
  std::unique_ptr<host_side> host;     ///< null on targets
  std::unique_ptr<target_side> target; ///< null on the host
  std::shared_ptr<am::engine> engine;
  std::shared_ptr<counter_segment> counters; ///< counters of this process; null if memory or
                                             ///< descriptors were lacking when the job was made
  std::unique_ptr<key_resolver> functions;
  message_table messages;
  copy_state owned_copies{*this}; ///< object of job_core::copies
  node_watch watch;               ///< used on the host
  lost_servers returns{*this};    ///< used on the host
  /// Part of the extension "host files" on this node, or null. It is set before handlers run.
  std::shared_ptr<job_service> service;
  std::unique_ptr<equals> as_equals; ///< state of a job of equals; null in a plain job
  std::unique_ptr<job_trace> trace;  ///< trace of the job; null if the job is not traced; declared
                                     ///< last, so that it is destroyed first

 private:
  bool has_ended_ = false;
};

/// Returns the job to which `core` belongs. Throws what usable() throws if the job cannot be used
/// any more.
[[nodiscard]] inline job_state& state_of(job_core& core) {
  return static_cast<job_state&>(usable(core));
}

/// Returns the job of the handler that this thread runs, or else the only job of the process.
/// Throws error if there is neither.
[[nodiscard]] job_state& current_job();

} // namespace farcall::detail
