// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/fork.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/transport/message_lane.hpp>
#include <farcall/transport/message_link.hpp>
#include <farcall/transport/mpi/library.hpp>
#include <farcall/transport/mpi/messages.hpp>
#include <farcall/transport/mpi/poll_timer.hpp>
#include <farcall/transport/mpi/world.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <mpi.h>

namespace farcall::mpi {

/// A node, together with its rank in the communicator.
struct connection : message_peer {
  int rank = -1; ///< -1 if not known yet
  int tag = 0;   ///< tag that messages to the node have
};

/// Sends and receives a process's messages over one communicator. The engine has posted receives
/// for all messages with this process's tag. It also has the sends in progress, and the bytes of
/// copies in flight. MPI cannot wake a thread when a message arrives. Therefore a timer makes the
/// event loop poll, at intervals that grow with the time since the last event.
///
/// If only one thread may call MPI (`threads::one`), other threads leave their messages to that
/// thread, which sends them when it polls. The event loop then does not poll MPI, and only wakes
/// that thread.
class engine final : public message_link, private fork_observer, private user {
 public:
  /// Interface for the receiver of messages. Its members are called with the lock held.
  class receiver {
   public:
    /// Handles a message. `from` is the rank of the sender.
    virtual void on_message(std::uint16_t kind, int from, std::span<const std::byte> header,
                            std::span<const std::byte> bytes) noexcept = 0;
    /// Called after messages were received, or operations have completed.
    virtual void after_progress() noexcept = 0;
    /// Does the work that other threads have left. Called by the event loop. If only one thread may
    /// call MPI, that thread's polls also call this function.
    virtual void sweep() noexcept = 0;
    /// Called when the program finalises MPI. During this call, committed bytes can still be sent.
    virtual void before_end() noexcept = 0;
    /// Called after before_end(), when nothing more can be sent or received.
    virtual void on_end() noexcept = 0;

   protected:
    ~receiver() = default;
  };

  /// `doorbells` are the doorbells of this node. Throws error.
  engine(receiver& to, std::shared_ptr<const world> over, threads level,
         std::span<doorbell> doorbells);
  ~engine() override;

  /// Ends the engine's use of MPI. Cancels the posted receives, and drops queued messages. Messages
  /// of this node that MPI has not sent by then may be lost.
  void stop() noexcept;

  [[nodiscard]] const world& over() const noexcept { return *world_; }
  [[nodiscard]] int tag() const noexcept { return tag_; }
  [[nodiscard]] bool is_forked() const noexcept { return is_forked_; }
  /// True if the calling thread may call MPI, and MPI was neither finalised nor given up.
  [[nodiscard]] bool is_usable() const noexcept {
    return !has_ended_ && !is_forked_ && is_for_caller();
  }
  [[nodiscard]] int wait_fd() const noexcept { return timer_.fd(); }

  // ---- with the lock

  /// True if MPI was finalised, or if MPI can no longer receive messages.
  [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }

  outcome send(message_lane& from, const lane_header& header,
               std::span<const std::byte> bytes) noexcept override;
  using message_link::post;
  bool post(message_peer& to, lane_message kind,
            std::span<const std::byte> header) noexcept override {
    return post(static_cast<connection&>(to), static_cast<std::uint16_t>(kind), header);
  }
  bool post(connection& to, std::uint16_t kind, std::span<const std::byte> header) noexcept;

  /// A part of a copy whose bytes MPI reads or writes. When MPI no longer uses the bytes, the
  /// engine calls `ended` once, with the lock held.
  struct transfer {
    void (*ended)(void* argument, bool is_good) noexcept = nullptr;
    void* argument = nullptr;
  };
  /// Both functions start a transfer, or leave it to the one thread that may call MPI. They return
  /// false if the transfer cannot be started, and then do not call `ended`. The transfer object
  /// must not move until the transfer has ended.
  [[nodiscard]] bool start_send(transfer& t, const connection& to, std::uint32_t tag,
                                const std::byte* from, std::size_t bytes) noexcept;
  [[nodiscard]] bool start_receive(transfer& t, const connection& from, std::uint32_t tag,
                                   std::byte* to, std::size_t bytes) noexcept;
  /// Cancels a receive. The receive ends soon after, unless its message has already begun to
  /// arrive.
  void cancel(transfer& t) noexcept;

  /// Returns the peers to which MPI cannot send any more. Each such peer is returned once.
  [[nodiscard]] std::vector<connection*> take_failures() noexcept {
    return std::exchange(failures_, {});
  }
  /// Drops the queued messages to the peer `to`.
  void drop_queued(const connection& to) noexcept;
  /// True if messages are queued, or if MPI still reads the bytes of some messages.
  [[nodiscard]] bool has_unsent() const noexcept { return !queue_.empty() || sending_ != 0; }

  unsigned poll() noexcept override {
    ++polls_;
    return progress();
  }
  /// Works like poll(), but does not count as a poll of a user. The event loop calls it, for
  /// instance.
  unsigned progress() noexcept;

  // ---- without the lock

  void arm() noexcept override;
  void poll_again() noexcept override;
  /// Called by the event loop when wait_fd() is readable.
  void on_wake_up() noexcept;

 private:
  /// Memory into which MPI receives a message, or from which it sends one.
  struct slot {
    MPI_Request request = MPI_REQUEST_NULL;
    std::byte bytes[message_bytes];
  };
  struct queued {
    connection* to;
    std::uint16_t kind;
    std::uint16_t header_bytes;
    std::byte header[max_header];
  };

  struct planned {
    transfer* what;
    const connection* peer;
    int tag;
    int bytes;
    std::byte* memory;
    bool is_send;
  };

  void start_receives();
  unsigned take_arrivals() noexcept;
  [[nodiscard]] bool start_stopped_receives() noexcept;
  void take(const slot& s, const MPI_Status& status) noexcept;
  void reap_sends() noexcept;
  unsigned end_transfers() noexcept;
  void send_queued() noexcept;
  [[nodiscard]] slot* free_slot() noexcept;
  [[nodiscard]] bool send_slot(slot& s, connection& to, std::size_t bytes) noexcept;
  [[nodiscard]] bool start(const planned& p) noexcept;
  void start_planned() noexcept;
  void fail(connection& to, int result) noexcept;
  void release() noexcept;
  [[nodiscard]] bool take_back(MPI_Request& request, time_point deadline) noexcept;
  void before_end() noexcept override;
  void after_fork_in_child() noexcept override { is_forked_ = true; }

  receiver* to_;
  std::shared_ptr<const world> world_;
  /// Owner of the communicator. Keeps the communicator until the engine's operations were
  /// cancelled.
  std::shared_ptr<const owned_communicator> communicator_;
  threads level_;
  std::span<doorbell> doorbells_;
  int tag_;
  bool has_ended_ = false; ///< true if MPI is being or was finalised, or was given up
  bool is_forked_ = false;
  poll_timer timer_;

  std::unique_ptr<slot[]> receives_;
  /// Index of the receive that MPI completes next. MPI completes the receives in the order in which
  /// they were started.
  std::size_t next_receive_ = 0;
  /// Number of receives before next_receive_ whose messages were taken, and which were not started
  /// again.
  std::size_t stopped_receives_ = 0;
  bool had_arrivals_ = false; ///< true if the last poll has taken messages
  std::unique_ptr<slot[]> sends_;
  std::vector<slot*> free_sends_;
  std::size_t sending_ = 0;
  std::deque<queued> queue_; ///< messages that could not be sent at once
  std::vector<transfer*> transfers_;
  // MPI requests of the elements of transfers_, at the same positions. MPI_Testsome stores the
  // positions and the results of completed requests in the next two vectors.
  std::vector<MPI_Request> requests_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::vector<connection*> failures_;
  // Work that other threads have left to the one thread that may call MPI.
  std::vector<planned> planned_;
  std::vector<transfer*> to_cancel_;

  std::atomic<bool> is_left_{false}; ///< true if work waits for the one thread that may call MPI
  /// True if a thread has gone to sleep since the event loop last checked.
  std::atomic<bool> is_awaited_{false};
  std::uint64_t polls_ = 0;
  std::uint64_t polls_seen_ = 0; ///< value of polls_ when the event loop last read it
  time_point last_notice_{};     ///< time of the last event, or time at which a thread began to
                                 ///< wait
};

} // namespace farcall::mpi
