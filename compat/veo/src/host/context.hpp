#pragma once

#include "arguments.hpp"

#include <farcall/base/clock.hpp>
#include <farcall/base/error.hpp>
#include <farcall/memory/biased_lock.hpp>
#include <farcall/offload/call.hpp>

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

/// A kernel that a signal ended.
class kernel_failed : public error {
 public:
  kernel_failed(const std::string& text, int signal) : error(text), signal_(signal) {}
  [[nodiscard]] int signal() const noexcept { return signal_; }

 private:
  int signal_;
};

/// How a request stands; the numbers of veo_command_state.
enum class command_state : int { ok = 0, exception = 1, error = 2, unfinished = 3 };

/// A context: a lane, and the requests that were submitted to it. Requests run one after the other,
/// on the target or, for functions of the host and large copies, on a thread of the context here.
/// Their numbers are consecutive from 1. All members may be called by any thread.
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
  /// Drops what has not been collected. finish() first, or what is queued here is lost.
  ~context();

  [[nodiscard]] process& owner() const noexcept { return owner_; }

  // ---- submission: the number of the request. Throws error when the process has ended ----

  std::uint64_t call(std::uint64_t address, const arguments& a);
  std::uint64_t call_here(host_function f, void* argument);
  std::uint64_t write(std::uint64_t to, const void* from, std::size_t bytes);
  std::uint64_t read(void* to, std::uint64_t from, std::size_t bytes);
  std::uint64_t allocate(std::size_t bytes);
  std::uint64_t release(std::uint64_t address);

  /// Between these, no other thread submits. May be nested.
  void begin_block();
  void end_block();

  // ---- results ----

  /// Takes the result of a request, once; unfinished as long as there is none.
  [[nodiscard]] taken peek(std::uint64_t request);
  /// The same, waiting for it.
  [[nodiscard]] taken wait(std::uint64_t request);
  /// Waits for all requests that were submitted before; false when the deadline passed. Their
  /// results stay.
  bool finish(time_point deadline = no_deadline);

  // ---- requests whose caller waits, in order behind the others ----

  template <class F, class... A>
  [[nodiscard]] auto ask(const F& f, const A&... arguments) {
    {
      locked lock(mutex_);
      await_held(lock);
    }
    return sync(lane_, f, arguments...);
  }
  /// Throws error, for a kernel that failed too.
  [[nodiscard]] std::uint64_t call_and_wait(std::uint64_t address, const arguments& a);
  /// Waits for what was submitted before, and counts as a request for those behind it. For copies
  /// by the calling thread. Throws error.
  void await_idle();

 private:
  /// What a request has to do that could not be sent at once.
  struct step;
  struct call_step;
  struct host_step;
  struct copy_step;
  template <class F, class... A>
  struct message_step;

  enum class phase : std::uint8_t { held, running, sent, done };

  /// Where the bytes of an answer go.
  struct landing {
    std::vector<copy_back> pieces;
  };

  /// A request until it has ended.
  struct request {
    std::variant<std::monostate, future<outcome>, future<outcome_with_bytes>, future<found>> answer;
    std::unique_ptr<step> held;
    std::unique_ptr<landing> results;
    std::uint32_t cost = 0;    ///< bytes of the lane
    std::uint32_t waiters = 0; ///< threads inside the future
    phase at = phase::held;
  };

  /// What is left of it. Programs that wait for the last of many calls leave the results of the
  /// others for ever, so it should be little.
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
  [[nodiscard]] bool has_room(std::uint32_t cost) const noexcept;

  /// May the calling thread submit? Waits for the end of another's block. Throws error.
  void enter(locked& lock);
  /// Room for a request of this cost, now or after a moment.
  [[nodiscard]] bool make_room(std::uint32_t cost) noexcept;
  request& add();
  template <class Send>
  std::uint64_t send_now(std::uint32_t cost, Send&& send);
  std::uint64_t submit(std::unique_ptr<step> s);
  void await_held(locked& lock);

  [[nodiscard]] static bool is_answered(request& r) noexcept;
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

  /// No read-modify-write between two submissions: it would wait until the other side's cache has
  /// given up the line that the first one is written to.
  biased_lock mutex_;
  std::condition_variable_any changed_;
  std::uint32_t sleepers_ = 0;
  /// The allocator's locks would make each submission wait, as a mutex would.
  std::pmr::unsynchronized_pool_resource requests_memory_;
  std::pmr::deque<request> requests_{&requests_memory_}; ///< from oldest_ on
  std::pmr::deque<result> results_{&requests_memory_};   ///< from first_ on
  std::uint64_t first_ = 1;   ///< number of the oldest request whose result may be asked for
  std::uint64_t oldest_ = 1;  ///< requests before this one have ended, and nobody waits for them
  std::uint64_t settled_ = 1; ///< requests before this one have ended
  std::uint64_t sent_ = 1;    ///< requests from this one on are held here
  std::uint64_t in_flight_bytes_ = 0;
  std::uint32_t done_by_host_ = 0;
  std::thread worker_;
  bool closing_ = false;
  std::thread::id block_owner_;
  std::uint32_t block_depth_ = 0;
};

} // namespace farcall::veo
