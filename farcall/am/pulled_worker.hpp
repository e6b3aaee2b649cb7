// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>

#include <atomic>
#include <memory>

namespace farcall::am {

class engine;
class worker;
class worker_loop;
class worker_pool;
struct engine_options;

/// The first worker of a target whose program serves requests by threads of its own, between other
/// work of these threads. Only one thread at a time acts as the worker. While none does, another
/// worker takes over the lanes in which requests wait. Any thread that runs no handler may use it.
class pulled_worker {
 public:
  pulled_worker(engine& owner, const engine_options& options) noexcept;
  pulled_worker(const pulled_worker&) = delete;
  pulled_worker& operator=(const pulled_worker&) = delete;
  ~pulled_worker();

  enum class outcome : unsigned char {
    holds,
    late, ///< the deadline has passed
    ended ///< the engine stops, and all requests were served
  };

  /// Serves requests on the calling thread until `holds(argument)`, which is called in each poll,
  /// returns true. If the deadline has passed already, polls once. If another thread acts as the
  /// worker, the calling thread only waits. If code on another thread changes the result of
  /// `holds`, this code must call notify() afterwards. Handlers that wait continue in the next call
  /// on the same thread, which acts as the worker until these handlers have ended. Throws error in
  /// a handler, forked, and interrupted.
  [[nodiscard]] outcome serve_until(bool (*holds)(void* argument) noexcept, void* argument,
                                    time_point deadline);
  /// Makes the threads in serve_until() call `holds` again.
  void notify() noexcept;
  void after_fork_in_child() noexcept;

 private:
  class part;
  struct question;

  [[nodiscard]] bool enter();
  void leave() noexcept;

  engine& owner_;
  const engine_options& options_;
  /// Identifies the thread that acts as the worker; null if there is none.
  std::atomic<const void*> thread_{nullptr};
  std::atomic<unsigned> waiting_threads_{0}; ///< threads that wait while another is the worker
  const void* thread_of_loop_ = nullptr;     ///< thread for which loop_ was made
  /// Kept between the calls of one thread, because handlers may be suspended in it.
  std::unique_ptr<worker_loop> loop_;
};

} // namespace farcall::am
