#pragma once

#include "endpoint.hpp"
#include "fabric.hpp"
#include "job_messages.hpp"
#include "outgoing_messages.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace farcall::am2 {

/// What a handler gets as its token. There while its thread is.
struct token {
  am2_endpoint* at = nullptr;
  peer* source = nullptr; ///< null for one that is not in the table
  endpoint_name from;
  tag_t tag = 0;
  std::uint8_t handler = 0;
  category payload = category::short_message;
  bool is_request = false;
  bool is_running = false;
  bool can_reply = false;
};

/// What a thread is about.
struct thread_state {
  am2_bundle* polling = nullptr; ///< whose messages are run where they are received
  unsigned handled = 0;          ///< by this poll
  unsigned running = 0;          ///< handlers, one inside the other
  unsigned polls = 0;
  unsigned idle_polls = 0; ///< in a row
  /// A request's, a reply's to itself inside it, and that one's return.
  std::array<token, 4> tokens{};
  std::array<std::vector<std::uint64_t>, 4> payloads{}; ///< of messages to the endpoint itself
  std::vector<std::uint8_t> used_nodes{};               ///< whether the thread has a lane there
  const std::thread::id id = std::this_thread::get_id();
};

/// All of the library's state in this process: the program's interface has no object for it.
class process final : public receiver {
 public:
  [[nodiscard]] static process& instance() noexcept {
    // Acquire; partner: the release store in make().
    process* const made = only_.load(std::memory_order_acquire);
    return made != nullptr ? *made : make();
  }
  [[nodiscard]] static thread_state& thread() noexcept {
    return state_ != nullptr ? *state_ : make_thread_state();
  }

  // ---- the interface's objects ----

  void initialise();
  /// False when it was not initialised.
  [[nodiscard]] bool terminate();
  [[nodiscard]] bool is_initialised() const noexcept {
    return initialised_.load(std::memory_order_relaxed) != 0;
  }

  /// In a child of a fork: as if nothing had been initialised.
  void leave_in_child() noexcept { initialised_.store(0, std::memory_order_relaxed); }

  /// Null when there are too many.
  [[nodiscard]] am2_bundle* add_bundle(bool is_parallel);
  /// These are false for what is not one.
  [[nodiscard]] bool remove(am2_bundle* b);
  [[nodiscard]] bool remove(am2_endpoint* e);
  [[nodiscard]] bool move(am2_endpoint* e, am2_bundle* from, am2_bundle* to);
  [[nodiscard]] bool knows(const am2_bundle* b);
  [[nodiscard]] am2_endpoint* add_endpoint(am2_bundle& b);

  /// Memory for what others read of an endpoint, where there are others.
  void make_card(am2_endpoint& e);

  // ---- the job ----

  /// The fabric of a job, instead of that of this process alone; before there are endpoints.
  /// False when there are some.
  [[nodiscard]] bool join(std::unique_ptr<fabric> f);
  [[nodiscard]] fabric& network() noexcept { return *fabric_; }
  [[nodiscard]] job_messages& job() noexcept { return job_; }
  /// Whether a node has ended.
  [[nodiscard]] bool has_ended(int node) const noexcept;
  [[nodiscard]] bool some_have_ended() const noexcept {
    return ends_.load(std::memory_order_relaxed) != 0;
  }
  /// From now on ends of nodes are nothing that has to be handled.
  void expect_ends() noexcept { expects_ends_.store(true, std::memory_order_relaxed); }
  /// `f(code)` is called in a poll, outside handlers, once another process ends the job.
  void at_exit_of_others(void (*f)(int)) noexcept { exit_of_others_ = f; }

  // ---- progress ----

  /// Runs the handlers of the messages that have come for a bundle; returns how many messages.
  unsigned poll(am2_bundle& b) { return poll(thread(), b); }
  unsigned poll(thread_state& t, am2_bundle& b);
  /// Polls, and sleeps in between, until done() is true, which is asked after each poll.
  template <class Done>
  void wait_until(am2_bundle& b, const Done& done);
  /// The same, until a message was handled, or AM2_PostSema() was called.
  void wait_for_message(am2_bundle& b);
  /// Sleeps for some microseconds, or until a message has come.
  void doze(am2_bundle& b);
  /// Something has changed that a thread may wait for.
  void wake() noexcept;

  // ---- messages ----

  /// To another endpoint. Never waits, and loses nothing: what finds no space is sent later.
  void send_or_keep(int node, const message& m) noexcept {
    if (node == self_) [[unlikely]]
      return deliver(node, m);
    if (goes_in_parts(m)) [[unlikely]]
      return send_or_keep_in_parts(node, m);
    if (must_wait(try_send(node, m))) [[unlikely]]
      outgoing_.push(node, m);
  }
  /// The same for one to another node, at less cost. `payload`: of a medium, address and length.
  template <class... Payload>
  void send_or_keep(int node, const compact_message& m, Payload... payload) noexcept {
    if (must_wait(fabric_->try_send(node, m, payload...))) [[unlikely]]
      outgoing_.push(node, m.whole(payload...));
  }
  /// To another node. Waits for space while it polls the bundle, not for memory.
  template <class... Payload>
  [[nodiscard]] sending send(am2_bundle& b, int node, const compact_message& m,
                             Payload... payload) {
    const sending now = fabric_->try_send(node, m, payload...);
    if (now != sending::full) [[likely]]
      return now;
    return send_when_there_is_space(b, node, m.whole(payload...));
  }
  /// To another endpoint. Waits for space while it polls the bundle. Unless it is sent, the node
  /// has ended, or nothing gives back memory for it.
  [[nodiscard]] sending send(am2_bundle& b, int node, const message& m) {
    if (node == self_) [[unlikely]] {
      deliver(node, m);
      return sending::sent;
    }
    if (goes_in_parts(m)) [[unlikely]]
      return send_in_parts(b, node, m);
    const sending now = try_send(node, m);
    if (!must_wait(now)) [[likely]]
      return now;
    return send_when_there_is_space(b, node, m);
  }

  void deliver(int node, const message& m) noexcept override;
  void deliver(const compact_message& m) noexcept override;
  void deliver(const compact_message& m, const void* payload,
               std::uint64_t bytes) noexcept override;
  void node_has_ended(int node) noexcept override;

 private:
  process();
  [[nodiscard]] static process& make() noexcept;
  [[nodiscard]] static thread_state& make_thread_state() noexcept;

  /// To another node, in the way that costs least.
  [[nodiscard]] sending try_send(int node, const message& m) noexcept {
    if (m.header.payload() != category::long_message) {
      if (const auto c = compact_message::of(m, self_)) [[likely]]
        return m.header.payload() == category::short_message
                   ? fabric_->try_send(node, *c)
                   : fabric_->try_send(node, *c, m.payload, m.bytes);
    }
    return fabric_->try_send(node, m);
  }
  [[nodiscard]] sending send_when_there_is_space(am2_bundle& b, int node, const message& m);
  /// The same by `try_to()`.
  template <class Send>
  [[nodiscard]] sending send_when_there_is_space(am2_bundle& b, const Send& try_to);

  [[nodiscard]] static bool must_wait(sending s) noexcept {
    return s == sending::full || s == sending::no_memory;
  }
  /// The bytes need memory of the job while they travel, which longer ones might not find at once.
  [[nodiscard]] static bool goes_in_parts(const message& m) noexcept {
    return m.bytes > longest_part && m.header.payload() == category::long_message &&
           m.payload != nullptr && m.place == payload_place::message;
  }
  /// Sends the parts that find space, shorter ones where there is little memory. What has gone is
  /// no more in `rest`.
  [[nodiscard]] sending try_send_parts(int node, message& rest) noexcept;
  [[nodiscard]] sending send_in_parts(am2_bundle& b, int node, const message& m);
  void send_or_keep_in_parts(int node, const message& m);
  /// The endpoint of that number, where the thread is to run the message that has just come for it
  /// at once; else null.
  [[nodiscard]] static am2_endpoint* endpoint_in_place(const thread_state& t,
                                                       std::int32_t number) noexcept {
    if (t.polling == nullptr || t.polling->is_parallel || t.running != 0) return nullptr;
    for (am2_endpoint* const e : t.polling->endpoints) {
      if (e->name.endpoint != number) continue;
      // In order, where others wait.
      return e->is_ready() && e->arrived.size() == 0 ? e : nullptr;
    }
    return nullptr;
  }

  /// The calling thread is the one that polls the fabric, and sleeps in it.
  [[nodiscard]] bool receives() const noexcept { return thread().id == receiver_; }
  /// Messages that receive() gets for the bundle are run there; returns how many.
  template <class F>
  unsigned run_in_place(thread_state& t, am2_bundle& b, const F& receive);
  /// What polls seldom have to do.
  unsigned poll_whole(thread_state& t, am2_bundle& b);
  [[nodiscard]] bool may_need_whole_poll(const am2_bundle& b) const noexcept {
    return b.is_parallel || !outgoing_.empty() || has_news_of_ends(b) ||
           exit_code_.load(std::memory_order_relaxed) != no_exit;
  }
  /// AM_PAR: null behind the last one.
  [[nodiscard]] am2_endpoint* endpoint_at(am2_bundle& b, std::size_t i);
  template <class F>
  void for_each_ready(am2_bundle& b, const F& f);
  unsigned run_queue(am2_endpoint& e);
  /// Where nothing was handled, what is owed is given back.
  unsigned run_queued(am2_bundle& b, bool has_handled);
  void give_back_slots(am2_endpoint& e) noexcept;
  [[nodiscard]] bool has_news_of_ends(const am2_bundle& b) const noexcept {
    // Acquire; partner: the release addition in node_has_ended().
    return b.ends_seen.load(std::memory_order_relaxed) != ends_.load(std::memory_order_acquire);
  }
  /// A poll has handled so many messages; returns that number.
  static unsigned note_handled(thread_state& t, unsigned handled) noexcept {
    if (handled != 0) {
      t.idle_polls = 0;
    } else if (++t.idle_polls > most_idle_polls) [[unlikely]] {
      let_others_run(t);
    }
    return handled;
  }
  static void let_others_run(thread_state& t) noexcept;
  [[nodiscard]] bool has_queued(am2_bundle& b);
  /// Returns how many.
  unsigned return_messages_of_ended(am2_bundle& b);
  void flush() noexcept;
  void follow_exit(int code);
  void sleep(am2_bundle& b, bool (*is_done)(const void*), const void* done, unsigned* handled);
  using unknown_endpoint = std::unique_ptr<am2_endpoint>;
  /// From now on nobody finds it. With the registry's mutex; the result is to be dismissed without.
  [[nodiscard]] unknown_endpoint forget(am2_endpoint* e);
  /// What others have sent it and has not been run comes back to them, and their slots do.
  void dismiss(const unknown_endpoint& e) noexcept;
  void put_into(am2_bundle& b, am2_endpoint* e);
  void take_from(am2_bundle& b, am2_endpoint* e);
  [[nodiscard]] bool has(const am2_bundle* b) const noexcept;

  /// A thread that polls and polls, and gets nothing, may keep those that it waits for from
  /// running: from then on it yields in each poll. After some 50 us, so nothing is late where each
  /// has a core.
  static constexpr unsigned most_idle_polls = 1024;

  static constexpr std::uint64_t longest_part = std::uint64_t{1} << 20;
  static constexpr std::uint64_t shortest_part = 256;

  static constinit thread_local thread_state* state_;

  static constinit std::atomic<process*> only_;

  std::atomic<unsigned> initialised_{0};
  std::unique_ptr<fabric> fabric_;
  int self_ = 0; ///< of the fabric
  job_messages job_;

  std::mutex registry_;
  std::vector<am2_endpoint*> endpoints_; ///< by number; null for those that were freed
  std::vector<std::unique_ptr<am2_bundle>> bundles_;

  std::thread::id receiver_; ///< none where messages come from within, or on farcall's thread
  std::atomic<unsigned> sleepers_{0};
  std::mutex sleep_mutex_;
  std::condition_variable woken_;

  outgoing_messages outgoing_;
  std::atomic<std::uint64_t> transfers_{1}; ///< number of the next long that goes in parts
  std::vector<std::atomic<bool>> ended_;    ///< by node
  std::atomic<std::uint64_t> ends_{0};
  std::atomic<bool> expects_ends_{false};
  void (*exit_of_others_)(int) = nullptr;
  static constexpr int no_exit = INT_MIN;
  std::atomic<int> exit_code_{no_exit}; ///< that others have asked for
  /// When this process follows them, if it has not ended the job itself: time since the clock's
  /// epoch; 0 before it knows.
  std::atomic<std::chrono::steady_clock::duration> exit_at_{};
};

template <class Done>
void process::wait_until(am2_bundle& b, const Done& done) {
  for (unsigned handled = 0;; handled = 0) {
    handled = poll(b);
    if (done()) return;
    if (handled != 0) continue;
    sleep(b, [](const void* d) { return (*static_cast<const Done*>(d))(); }, &done, &handled);
  }
}

// ---- delivery.cpp ------------------------------------------------------------------------------

/// A message that has come for an endpoint: checks it, and runs its handler, or returns it.
void accept(am2_endpoint& ep, int node, const message& m) noexcept;
/// The same at less cost for a short message, or a medium one with this payload. False, and nothing
/// has happened, where there is more to it than to run its handler.
[[nodiscard]] bool accept_at_once(am2_endpoint& ep, thread_state& t,
                                  const compact_message& m) noexcept;
[[nodiscard]] bool accept_at_once(am2_endpoint& ep, thread_state& t, const compact_message& m,
                                  const void* payload, std::uint64_t bytes) noexcept;
/// The same for one of the endpoint's to itself.
void accept_own(am2_endpoint& ep, const message& m) noexcept;
/// Copies a long's payload to where it is to go, if that can be done from here: it need not travel
/// then. `may_wait`: outside handlers.
void try_place(const am2_endpoint& ep, peer& p, message& m, bool may_wait) noexcept;
/// There is no such endpoint.
void refuse_unknown(int node, const message& m) noexcept;
/// What the endpoint owes, if anything.
void send_credits(am2_endpoint& ep, peer& p) noexcept;
/// Runs handler 0 for a message of the endpoint's that could not be delivered.
void run_returned(am2_endpoint& ep, peer* source, endpoint_name from, int status, bool is_request,
                  const message_header& header) noexcept;
/// The same where a peer's process has ended and none of its requests was there.
void run_end_of(am2_endpoint& ep, peer& p) noexcept;
/// Prints, and ends the process.
[[noreturn]] void fatal(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));

} // namespace farcall::am2
