// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "endpoint.hpp"
#include "job_messages.hpp"
#include "job_network.hpp"
#include "outgoing_messages.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace farcall::am2 {

/// Object to which the `token` argument of a handler points. It exists as long as its thread.
struct token {
  am2_endpoint* at = nullptr; ///< the receiver
  peer* source = nullptr;     ///< the sender; null if the sender is not in the receiver's table
  endpoint_name from;
  tag_t tag = 0;
  std::uint8_t handler = 0;
  category payload = category::short_message;
  bool is_request = false;
  bool is_running = false;
  bool can_reply = false;
};

/// State of each thread that uses the library.
struct thread_state {
  /// Bundle whose messages this thread runs as soon as they are received.
  am2_bundle* polling = nullptr;
  unsigned handled = 0; ///< number of messages that the current poll has run
  unsigned running = 0; ///< number of nested handlers that are running
  unsigned polls = 0;
  unsigned idle_polls = 0; ///< consecutive polls that found no message
  /// Tokens of nested handlers: the handler of a request, inside it the handler of a reply to the
  /// same endpoint, and inside that the handler of a returned reply.
  std::array<token, 4> tokens{};
  /// Copies of medium payloads that an endpoint sends to itself, one for each nested handler.
  std::array<std::vector<std::uint64_t>, 4> payloads{};
  std::vector<std::uint8_t>
      used_nodes{}; ///< indexed by node; 1 once this thread has a lane to the node
  const std::thread::id id = std::this_thread::get_id();
};

/// State of the library in this process. It is a singleton, because the functions of the C
/// interface have no parameter for such an object.
class process {
 public:
  [[nodiscard]] static process& instance() noexcept {
    // Acquire pairs with the release store in make(), so that the constructed object is visible.
    process* const made = only_.load(std::memory_order_acquire);
    return made != nullptr ? *made : make();
  }
  [[nodiscard]] static thread_state& thread() noexcept {
    return state_ != nullptr ? *state_ : make_thread_state();
  }

  // ---- the interface's objects ----

  void initialise();
  /// Reverts one call of initialise(). Returns false if there was no such call.
  [[nodiscard]] bool terminate();
  [[nodiscard]] bool is_initialised() const noexcept {
    return initialised_.load(std::memory_order_relaxed) != 0;
  }

  /// Marks the library as not initialised in the child of a fork.
  void leave_in_child() noexcept { initialised_.store(0, std::memory_order_relaxed); }

  /// Returns a new bundle; null if there are max_bundles already.
  [[nodiscard]] am2_bundle* add_bundle(bool is_parallel);
  // The next four functions return false if an argument does not point to an existing bundle or
  // endpoint.
  [[nodiscard]] bool remove(am2_bundle* b);
  [[nodiscard]] bool remove(am2_endpoint* e);
  [[nodiscard]] bool move(am2_endpoint* e, am2_bundle* from, am2_bundle* to);
  [[nodiscard]] bool knows(const am2_bundle* b);
  [[nodiscard]] am2_endpoint* add_endpoint(am2_bundle& b);

  /// Allocates and fills the segment_card of an endpoint, if the job has other processes that can
  /// read it.
  void make_card(am2_endpoint& e);

  // ---- the job ----

  /// Joins a job. Returns false without any effect if there are endpoints already. Throws
  /// std::bad_alloc.
  [[nodiscard]] bool join(farcall::job made, bool has_progress_thread);
  [[nodiscard]] job_network& network() noexcept { return network_; }
  [[nodiscard]] job_messages& job() noexcept { return job_; }
  /// True if the process with this node number has ended.
  [[nodiscard]] bool has_ended(int node) const noexcept;
  [[nodiscard]] bool some_have_ended() const noexcept {
    return ends_.load(std::memory_order_relaxed) != 0;
  }
  /// Ignores the end of other nodes from now on, because this process is about to exit.
  void expect_ends() noexcept { expects_ends_.store(true, std::memory_order_relaxed); }
  /// Sets the function that is called when another process has ended the job. A poll that is not
  /// inside a handler calls it.
  void at_exit_of_others(void (*f)(int)) noexcept { exit_of_others_ = f; }

  // ---- progress ----

  /// Runs the handlers of messages that have arrived for a bundle. Returns the number of messages
  /// that were run.
  unsigned poll(am2_bundle& b) { return poll(thread(), b); }
  unsigned poll(thread_state& t, am2_bundle& b);
  /// Polls the bundle until done() returns true, and sleeps between polls. Calls done() after each
  /// poll.
  template <class Done>
  void wait_until(am2_bundle& b, const Done& done);
  /// Polls the bundle until a message was handled or AM2_PostSema() was called, and sleeps between
  /// polls.
  void wait_for_message(am2_bundle& b);
  /// Sleeps for some microseconds. On the receiving thread, the sleep ends earlier if a message
  /// arrives.
  void doze(am2_bundle& b);
  /// Wakes all sleeping threads, because a condition for which they wait may have changed.
  void wake() noexcept;

  // ---- messages ----

  /// Sends a message to an endpoint without waiting. If there is no space, the message is copied
  /// and sent by a later poll.
  void send_or_keep(int node, const message& m) noexcept {
    if (node == self_) [[unlikely]]
      return deliver(node, m);
    if (goes_in_parts(m)) [[unlikely]]
      return send_or_keep_in_parts(node, m);
    if (must_wait(try_send(node, m))) [[unlikely]]
      outgoing_.push(node, m);
  }
  /// Sends a compact message to another node, which is faster. For a medium message, `payload` is
  /// the address and the length of the payload.
  template <class... Payload>
  void send_or_keep(int node, const compact_message& m, Payload... payload) noexcept {
    if (must_wait(network_.try_send(node, m, payload...))) [[unlikely]]
      outgoing_.push(node, m.whole(payload...));
  }
  /// Sends a compact message to another node. If the lane has no space, polls the bundle while it
  /// waits for space. If there is space but no memory for the payload, returns sending::no_memory
  /// without waiting.
  template <class... Payload>
  [[nodiscard]] sending send(am2_bundle& b, int node, const compact_message& m,
                             Payload... payload) {
    const sending now = network_.try_send(node, m, payload...);
    if (now != sending::full) [[likely]]
      return now;
    return send_when_there_is_space(b, node, m.whole(payload...));
  }
  /// Sends a message to an endpoint, and polls the bundle while it waits for space. Returns
  /// sending::unreachable if the node has ended. Returns sending::no_memory if there has been no
  /// memory for the payload for some seconds.
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

  /// Handles a message that has arrived from `node`, which may be this process. Runs the handler at
  /// once if endpoint_in_place() allows that; otherwise queues the message for the next poll of the
  /// receiver's bundle. If the receiver does not exist, the message is returned to its sender. A
  /// message between processes is added to job() instead.
  void deliver(int node, const message& m) noexcept;
  /// Runs or queues a compact message, and is faster than deliver() for other messages.
  void deliver(int node, const compact_message& m, std::span<const std::byte> payload) noexcept;
  /// Notes that a node has ended, and wakes threads that wait. Can be called by any thread.
  void node_has_ended(int node) noexcept;

 private:
  process();
  [[nodiscard]] static process& make() noexcept;
  [[nodiscard]] static thread_state& make_thread_state() noexcept;

  /// Sends a message to another node, in compact form if possible.
  [[nodiscard]] sending try_send(int node, const message& m) noexcept {
    if (m.header.payload() != category::long_message) {
      if (const auto c = compact_message::of(m)) [[likely]]
        return network_.try_send(node, *c, m.payload, m.bytes);
    }
    return network_.try_send(node, m);
  }
  [[nodiscard]] sending send_when_there_is_space(am2_bundle& b, int node, const message& m);
  /// Calls `try_to()` until its result says that the message need not wait, and polls the bundle
  /// between these calls. Returns the last result. Gives up after some seconds if there is no
  /// memory.
  template <class Send>
  [[nodiscard]] sending send_when_there_is_space(am2_bundle& b, const Send& try_to);

  [[nodiscard]] static bool must_wait(sending s) noexcept {
    return s == sending::full || s == sending::no_memory;
  }
  /// True if a long message must be sent in parts, because its payload is large. As a whole, the
  /// payload would occupy one large piece of the job's memory until it is received, and such a
  /// piece may not be free.
  [[nodiscard]] static bool goes_in_parts(const message& m) noexcept {
    return m.bytes > max_part && m.header.payload() == category::long_message &&
           m.payload != nullptr && m.place == payload_place::message;
  }
  /// Sends as many parts of `rest` as there is space for, and removes them from `rest`. If memory
  /// is short, sends smaller parts.
  [[nodiscard]] sending try_send_parts(int node, message& rest) noexcept;
  [[nodiscard]] sending send_in_parts(am2_bundle& b, int node, const message& m);
  void send_or_keep_in_parts(int node, const message& m);
  /// Returns the endpoint with this number if the calling thread may run a message for it as soon
  /// as the message is received; otherwise null. The thread may do so if it polls the endpoint's
  /// bundle, the bundle is AM_SEQ, and no handler is running.
  [[nodiscard]] static am2_endpoint* endpoint_in_place(const thread_state& t,
                                                       std::int32_t number) noexcept {
    if (t.polling == nullptr || t.polling->is_parallel || t.running != 0) return nullptr;
    for (am2_endpoint* const e : t.polling->endpoints) {
      if (e->name.endpoint != number) continue;
      // Run no message in place while others are queued, because queued messages arrived earlier.
      return e->is_ready() && e->arrived.size() == 0 ? e : nullptr;
    }
    return nullptr;
  }

  /// True if the calling thread is the receiving thread, which polls the network and sleeps in
  /// network_.wait().
  [[nodiscard]] bool receives() const noexcept { return thread().id == receiver_; }
  /// Calls receive(), which may run messages for the bundle as it receives them. Returns how many
  /// were run.
  template <class F>
  unsigned run_in_place(thread_state& t, am2_bundle& b, const F& receive);
  /// Polls the bundle and, in addition, sends waiting messages and checks for ended nodes and for
  /// the end of the job.
  unsigned poll_whole(thread_state& t, am2_bundle& b);
  [[nodiscard]] bool may_need_whole_poll(const am2_bundle& b) const noexcept {
    return b.is_parallel || !outgoing_.empty() || has_notices_of_ends(b) ||
           exit_code_.load(std::memory_order_relaxed) != no_exit;
  }
  /// Returns the endpoint with index `i` of an AM_PAR bundle; null after the last one.
  [[nodiscard]] am2_endpoint* endpoint_at(am2_bundle& b, std::size_t i);
  template <class F>
  void for_each_ready(am2_bundle& b, const F& f);
  unsigned run_queue(am2_endpoint& e);
  /// Runs the queued messages of the bundle's endpoints. Returns how many were run. If this poll
  /// has handled no message, also gives back the slots that the endpoints owe.
  unsigned run_queued(am2_bundle& b, bool has_handled);
  void give_back_slots(am2_endpoint& e) noexcept;
  [[nodiscard]] bool has_notices_of_ends(const am2_bundle& b) const noexcept {
    // Acquire pairs with the release addition in node_has_ended(), so that the flags of the ended
    // nodes are visible.
    return b.ends_seen.load(std::memory_order_relaxed) != ends_.load(std::memory_order_acquire);
  }
  /// Counts consecutive polls that handled no message, and yields the CPU if there were many.
  /// Returns `handled`.
  static unsigned note_handled(thread_state& t, unsigned handled) noexcept {
    if (handled != 0) {
      t.idle_polls = 0;
    } else if (++t.idle_polls > max_idle_polls) [[unlikely]] {
      let_others_run(t);
    }
    return handled;
  }
  static void let_others_run(thread_state& t) noexcept;
  [[nodiscard]] bool has_queued(am2_bundle& b);
  /// Handles the ends of nodes: runs handler 0 for each outstanding request to a node that has
  /// ended, and once for an ended node without such requests. Returns the number of these calls.
  /// Aborts if the program has set no handler 0.
  unsigned return_messages_of_ended(am2_bundle& b);
  void flush() noexcept;
  void follow_exit(int code);
  void sleep(am2_bundle& b, bool (*is_done)(const void*), const void* done, unsigned* handled);
  using unknown_endpoint = std::unique_ptr<am2_endpoint>;
  /// Removes an endpoint from the registry, so that messages can no longer find it. The caller must
  /// hold registry_. After releasing it, the caller must call dismiss() for the result.
  [[nodiscard]] unknown_endpoint forget(am2_endpoint* e);
  /// Returns the queued messages of the endpoint to their senders, and gives back the slots of
  /// these messages.
  void dismiss(const unknown_endpoint& e) noexcept;
  void put_into(am2_bundle& b, am2_endpoint* e);
  void take_from(am2_bundle& b, am2_endpoint* e);
  [[nodiscard]] bool has(const am2_bundle* b) const noexcept;

  /// Number of consecutive polls without a message after which a thread yields the CPU in each
  /// poll. It yields because a thread that polls may keep the threads for which it waits from
  /// running. This number of polls takes about 50 us, so that threads with separate cores rarely
  /// yield.
  static constexpr unsigned max_idle_polls = 1024;

  static constexpr std::uint64_t max_part = std::uint64_t{1} << 20;
  static constexpr std::uint64_t min_part = 256;

  static constinit thread_local thread_state* state_;

  static constinit std::atomic<process*> only_;

  std::atomic<unsigned> initialised_{0};
  job_network network_;
  int self_ = 0; ///< of the network
  job_messages job_;

  std::mutex registry_;
  /// Endpoints by their number; null if the endpoint was freed.
  std::vector<am2_endpoint*> endpoints_;
  std::vector<std::unique_ptr<am2_bundle>> bundles_;

  /// Id of the receiving thread. It stands for no thread if there is no job, or if the job's
  /// progress thread receives messages.
  std::thread::id receiver_;
  std::atomic<unsigned> sleepers_{0};
  std::mutex sleep_mutex_;
  std::condition_variable woken_;

  outgoing_messages outgoing_;
  /// Number for the next long message that is sent in parts.
  std::atomic<std::uint64_t> transfers_{1};
  std::vector<std::atomic<bool>> ended_; ///< by node
  std::atomic<std::uint64_t> ends_{0};
  std::atomic<bool> expects_ends_{false};
  void (*exit_of_others_)(int) = nullptr;
  static constexpr int no_exit = INT_MIN;
  std::atomic<int> exit_code_{no_exit}; ///< exit code with which another process has ended the job
  /// Time, as duration since the clock's epoch, at which this process exits because another process
  /// has ended the job. The process may exit earlier by itself. The value is 0 while no process has
  /// ended the job.
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

/// Checks a message that has arrived for an endpoint. Runs its handler, or returns the message to
/// its sender.
void accept(am2_endpoint& ep, int node, const message& m) noexcept;
/// Runs the handler of a compact message, faster than accept(). Returns false without any effect if
/// the message needs accept().
[[nodiscard]] bool accept_at_once(am2_endpoint& ep, thread_state& t, int node,
                                  const compact_message& m,
                                  std::span<const std::byte> payload) noexcept;
/// Checks a message that an endpoint sends to itself. Runs its handler, or returns the message by
/// handler 0.
void accept_own(am2_endpoint& ep, const message& m) noexcept;
/// Copies the payload of a long message into the receiver's segment if this process can access the
/// segment, and removes the payload from the message. `may_wait` must be false in handlers.
void try_place(const am2_endpoint& ep, peer& p, message& m, bool may_wait) noexcept;
/// Returns a message to its sender, because the endpoint to which it was sent does not exist.
void refuse_unknown(int node, const message& m) noexcept;
/// Gives back all slots that the endpoint owes to the peer.
void send_credits(am2_endpoint& ep, peer& p) noexcept;
/// Runs handler 0 for a message that this endpoint has sent and that could not be delivered.
void run_returned(am2_endpoint& ep, peer* source, endpoint_name from, int status, bool is_request,
                  const message_header& header) noexcept;
/// Runs handler 0 for the end of a peer's process to which no request was outstanding.
void run_end_of(am2_endpoint& ep, peer& p) noexcept;
/// Prints a message and aborts the process.
[[noreturn]] void fatal(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));

} // namespace farcall::am2
