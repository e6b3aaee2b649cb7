// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "arguments.hpp"

#include <farcall/async/call.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/memory/biased_lock.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>

namespace farcall::veo {

class process;

/// Exception for a kernel that was ended by a signal.
class kernel_failed : public error {
 public:
  kernel_failed(const std::string& text, int signal) : error(text), signal_(signal) {}
  [[nodiscard]] int signal() const noexcept { return signal_; }

 private:
  int signal_;
};

/// State of a request. The enumerators have the values of veo_command_state.
enum class command_state : int { ok = 0, exception = 1, error = 2, unfinished = 3 };

/// A context: a lane, and the requests that were submitted to it. Requests run one after the other.
/// Kernels, allocations and small copies run in the helper. Host functions and large copies run in
/// this process, on the context's thread; a large write may also run on the thread that submits it.
/// Requests are numbered from 1. Thread-safe.
class context {
 private:
  using locked = std::unique_lock<biased_lock>;

 public:
  static constexpr std::uint64_t invalid_request = ~std::uint64_t{0};
  using host_function = std::uint64_t (*)(void*);

  struct taken {
    command_state state;
    std::uint64_t value;
  };

  context(process& owner, const context_settings& settings);
  context(const context&) = delete;
  context& operator=(const context&) = delete;
  /// Discards results that were not collected. Call finish() before the destructor, because the
  /// destructor does not send requests that are still queued.
  ~context();

  [[nodiscard]] process& owner() const noexcept { return owner_; }
  /// Returns the number of contexts that this program has destroyed. While the number stays equal,
  /// a handle of a context or process stays valid, because each process destroys its main context.
  [[nodiscard]] static std::uint64_t destroyed() noexcept {
    return destroyed_.load(std::memory_order_acquire);
  }

  // ---- submission: returns the request's number; throws error if the process has ended ----

  std::uint64_t call(std::uint64_t address, const arguments& a);
  std::uint64_t call_here(host_function f, void* argument);
  std::uint64_t write(std::uint64_t to, const void* from, std::size_t bytes);
  std::uint64_t read(void* to, std::uint64_t from, std::size_t bytes);
  std::uint64_t allocate(std::size_t bytes);
  std::uint64_t release(std::uint64_t address);

  /// Begin and end a block of requests, during which only the calling thread can submit. Blocks
  /// nest.
  void begin_block();
  void end_block();

  // ---- results ----

  /// Takes the result of a request if the request has ended, otherwise returns `unfinished`. Each
  /// result can be taken once.
  [[nodiscard]] taken peek(std::uint64_t request);
  /// Waits for the end of a request and takes its result. Each result can be taken once.
  [[nodiscard]] taken wait(std::uint64_t request);
  /// Waits until all requests submitted before this call have ended, without taking their results.
  /// Returns false if the deadline passes first.
  bool finish(time_point deadline = no_deadline);

  // ---- blocking requests, which run after all requests submitted before ----

  template <class F, class... A>
  [[nodiscard]] auto ask(const F& f, const A&... arguments) {
    {
      locked lock(mutex_);
      await_held(lock);
    }
    return sync(lane_, f, arguments...);
  }
  /// Calls a kernel after the earlier requests, waits, and returns the kernel's result. Throws
  /// error, also if the kernel has failed.
  [[nodiscard]] std::uint64_t call_and_wait(std::uint64_t address, const arguments& a);
  /// Waits until all requests submitted before have ended. The calling thread then copies memory
  /// itself, so that the copy is made in the order of the requests. The helper counts this copy as
  /// a request with the result 0. Throws error.
  void await_idle();

 private:
  static inline std::atomic<std::uint64_t> destroyed_{0};

  /// Work of a request that is queued because it could not be sent at once.
  struct step;
  struct call_step;
  struct host_step;
  struct copy_step;
  template <class F, class... A>
  struct message_step;

  enum class phase : std::uint8_t { held, running, sent, done };

  /// Places to which the bytes of a reply are copied.
  struct landing {
    std::vector<copy_back> pieces;
  };

  /// State of a request that has not ended.
  struct request {
    std::variant<std::monostate, future<outcome>, future<outcome_with_bytes>, future<found>> reply;
    std::unique_ptr<step> held;
    std::unique_ptr<landing> results;
    std::uint32_t cost = 0;    ///< bytes that the request takes of the lane
    std::uint32_t waiters = 0; ///< number of threads that wait in wait_for() for this request
    phase at = phase::held;
  };

  /// State of a request that has ended. The type is small, because results can accumulate: some
  /// programs submit many calls and collect only the result of the last one.
  struct result {
    std::uint64_t value = 0;
    command_state state = command_state::unfinished;
    bool was_taken = false;
  };

  [[nodiscard]] std::uint64_t end() const noexcept { return oldest_ + requests_.size(); }
  [[nodiscard]] request& at(std::uint64_t number) noexcept { return requests_[number - oldest_]; }
  [[nodiscard]] result& result_of(std::uint64_t number) noexcept {
    return results_[number - first_];
  }
  [[nodiscard]] result* find(std::uint64_t number) noexcept;
  [[nodiscard]] bool holds() const noexcept { return sent_ != end(); }
  [[nodiscard]] bool has_space(std::uint32_t cost) const noexcept;

  /// Waits until no other thread has a block of requests open. Throws error if the process has
  /// ended.
  void enter(locked& lock);
  /// Returns true if the lane has space for a request of this cost now, or gets it within
  /// `max_wait`.
  [[nodiscard]] bool make_space(std::uint32_t cost) noexcept;
  request& add();
  template <class Send>
  std::uint64_t send_now(std::uint32_t cost, Send&& send);
  std::uint64_t submit(std::unique_ptr<step> s);
  void await_held(locked& lock);

  [[nodiscard]] static bool has_reply(request& r) noexcept;
  void advance() noexcept;
  void send_held() noexcept;
  void settle(std::uint64_t number) noexcept;
  void wait_for(locked& lock, std::uint64_t number, time_point deadline = no_deadline) noexcept;
  [[nodiscard]] taken refuse(std::uint64_t number) const;
  taken collect(std::uint64_t number);
  void work() noexcept;
  void need_worker();
  void changed() noexcept;
  [[nodiscard]] std::uint32_t take_done_by_host() noexcept;

  process& owner_;
  lane lane_;

  /// Lock of the context. A submission takes a biased lock without an atomic read-modify-write
  /// instruction. Such an instruction would wait until the stores of the previous submission are
  /// complete, which takes long, because the helper is reading their cache line.
  biased_lock mutex_;
  std::condition_variable_any changed_;
  std::uint32_t sleepers_ = 0;
  /// Memory pool of the deques `requests_` and `results_`. They do not allocate by malloc(),
  /// because malloc() takes an ordinary mutex. Its read-modify-write instructions would make each
  /// submission wait, as described for `mutex_`.
  std::pmr::unsynchronized_pool_resource requests_memory_;
  std::pmr::deque<request> requests_{&requests_memory_}; ///< requests from number oldest_ on
  std::pmr::deque<result> results_{&requests_memory_};   ///< results from number first_ on
  std::uint64_t first_ = 1;   ///< number of the oldest request whose result is stored
  std::uint64_t oldest_ = 1;  ///< requests before this number have ended and have no waiters
  std::uint64_t settled_ = 1; ///< requests before this number have ended
  std::uint64_t sent_ = 1;    ///< requests from this number on are queued
  std::uint64_t in_flight_bytes_ = 0;
  std::uint32_t done_by_host_ = 0;
  library_thread worker_;
  bool closing_ = false;
  std::thread::id block_owner_;
  std::uint32_t block_depth_ = 0;
};

} // namespace farcall::veo
