// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "message.hpp"

#include <farcall/call/message_handler.hpp>
#include <farcall/copy/buffer.hpp>
#include <farcall/offload/job.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace farcall::am2 {

class process;
struct thread_state;

/// Result of an attempt to send a message.
enum class sending : std::uint8_t {
  sent, ///< the message was sent; the sender's memory may be used again
  full, ///< the lane has no space now; nothing was sent
  /// There is no memory for the payload now, but perhaps for a smaller payload; nothing was sent.
  no_memory,
  unreachable, ///< the node has ended
};

/// The processes of a job in which all processes run the same program, and raw messages between
/// them. Before join(), the job consists of this process only. Each message that arrives is passed
/// to process::deliver(), either by the receiving thread in poll() and wait(), or by the job's
/// progress thread.
class job_network {
 public:
  job_network() = default;
  job_network(const job_network&) = delete;
  job_network& operator=(const job_network&) = delete;

  /// Takes ownership of a job, whose messages are from now on delivered to `to`. Each process calls
  /// join() and then barrier(); all processes may send after barrier(). Throws std::bad_alloc.
  void join(job made, bool has_progress_thread, process& to);
  /// Waits until all processes have called this function. Aborts this process if another process
  /// has ended before. The job cannot be started without that process, because other processes may
  /// already have sent messages to this one.
  void barrier() noexcept;

  [[nodiscard]] int self() const noexcept { return self_; }
  [[nodiscard]] int size() const noexcept { return size_; }

  /// Sends a message to another node if it can do so without waiting. Runs no handlers. Any thread
  /// may call it.
  [[nodiscard]] sending try_send(int node, const message& m) noexcept;
  /// Send a compact message, which is faster than other messages. The first function sends a short
  /// message, the second one a medium message with this payload.
  [[nodiscard]] sending try_send(int node, const compact_message& m) noexcept;
  [[nodiscard]] sending try_send(int node, const compact_message& m, const void* payload,
                                 std::uint64_t bytes) noexcept;
  /// Returns the thread on which messages are delivered. Returns no thread if there is no job, or
  /// if the job's progress thread delivers messages.
  [[nodiscard]] std::thread::id receiving_thread() const noexcept { return main_; }
  /// Delivers the messages that have arrived, without waiting. Only for the receiving thread.
  void poll() noexcept;
  /// Sleeps until a message has arrived, wake() has been called, or the time `most` has passed.
  /// Only for the receiving thread.
  void wait(std::chrono::nanoseconds most) noexcept;
  /// Ends the current or the next call of wait(). Any thread may call it.
  void wake() noexcept;

  /// Checks for nodes that have ended, at most every 10 ms, and calls process::node_has_ended() for
  /// each. Any thread may call it.
  void look_for_ends() noexcept;

  /// Returns the address at which memory of another node is mapped in this process; null if that
  /// memory is not shared. Never waits.
  [[nodiscard]] static std::byte* map(int node, std::uint64_t address, std::size_t bytes) noexcept;
  /// Copies bytes into the memory of another node without involving that node. Returns false if
  /// that is not possible. Must not be called in handlers, because it may wait.
  [[nodiscard]] bool put(int node, std::uint64_t address, const void* from,
                         std::size_t bytes) noexcept;
  /// Allocates memory that other nodes can access by map() and put(). Returns null if no memory is
  /// left.
  [[nodiscard]] void* allocate(std::size_t bytes) noexcept;
  void release(void* memory) noexcept;

  /// Lets this process continue from now on when another process of the job ends. Any thread may
  /// call it.
  void survive_ends() noexcept;
  /// Ends the job. Collective.
  void close() noexcept;

 private:
  /// Minimum time between two checks for ended nodes.
  static constexpr std::chrono::milliseconds poll_interval{10};

  // Functions that run when a message arrives. `to` is the process object.
  static void take_compact(void* to, compact_message m, farcall::message& from);
  static void take_other(void* to, message_header header, farcall::message& from);
  void note_arrival() noexcept {
    // Accesses to the counter are relaxed, because either the same thread writes and reads it, or
    // wake() orders the accesses. A read-modify-write is not needed, since one thread at a time
    // writes the counter.
    arrived_.store(arrived_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_woken() noexcept {
    return is_woken_.load(std::memory_order_relaxed) &&
           is_woken_.exchange(false, std::memory_order_acquire);
  }
  bool look_at_nodes() noexcept;
  /// Returns false if this thread runs a handler and has no lane to the node yet. Opening a lane
  /// may wait, and other handlers would run during the wait.
  [[nodiscard]] static bool may_use(int node) noexcept;
  [[nodiscard]] static bool may_open_lane(thread_state& t, int node) noexcept;
  template <class Prefix, class Payload>
  [[nodiscard]] sending try_post(int node, const Prefix& prefix, const Payload& payload) noexcept;

  std::optional<job> job_; ///< empty before join()
  process* to_ = nullptr;
  std::thread::id main_;
  int self_ = 0;
  int size_ = 1;
  std::vector<node> nodes_;
  enum class nearness : std::uint8_t { unknown, near, far };
  /// For each node, whether it is on this machine (`near`). Only the receiving thread uses this
  /// vector.
  std::vector<nearness> is_near_;
  std::vector<bool> has_ended_; ///< by node; guarded by mutex_
  /// Time of the last check for ended nodes, as duration since the clock's epoch.
  std::atomic<std::chrono::steady_clock::duration> polled_{};
  std::atomic<std::uint64_t> arrived_{0};
  std::atomic<bool> is_woken_{false};
  std::mutex mutex_;
  std::map<void*, buffer<std::byte>> segments_; ///< guarded by mutex_
};

} // namespace farcall::am2
