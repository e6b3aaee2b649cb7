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

/// A node, and where it is in the communicator.
struct connection : message_peer {
  int rank = -1; ///< -1: not known yet
  int tag = 0;   ///< of messages to it
};

/// A process's messages over one communicator: receives that wait for what anybody sends with this
/// process's tag, what is being sent, and bytes of copies on their way. MPI has nothing that wakes
/// a thread, so a timer has the progress thread look, the more rarely the longer there was nothing.
///
/// Where MPI is for one thread alone (`threads::one`), nobody else calls it: what others send waits
/// until that thread polls, and the progress thread does no more than wake it.
class engine final : public message_link, private fork_observer, private user {
 public:
  /// Who gets what has arrived. Everything with the lock.
  class receiver {
   public:
    /// `from` is the sender's rank.
    virtual void on_message(std::uint16_t kind, int from, std::span<const std::byte> header,
                            std::span<const std::byte> bytes) noexcept = 0;
    /// After messages and completions.
    virtual void after_progress() noexcept = 0;
    /// Somebody has left something for whoever polls.
    virtual void sweep() noexcept = 0;
    /// The program finalises MPI: what was committed can still be sent.
    virtual void before_end() noexcept = 0;
    /// And now nothing can be sent any more, and nothing comes.
    virtual void on_end() noexcept = 0;

   protected:
    ~receiver() = default;
  };

  /// `doorbells` are those of this node. Throws error.
  engine(receiver& to, std::shared_ptr<const world> over, threads level,
         std::span<doorbell> doorbells);
  ~engine() override;

  /// Takes back what waits. What has not gone by then may be lost.
  void stop() noexcept;

  [[nodiscard]] const world& over() const noexcept { return *world_; }
  [[nodiscard]] int tag() const noexcept { return tag_; }
  [[nodiscard]] bool is_forked() const noexcept { return is_forked_; }
  /// MPI has not been finalised, and the calling thread may call it.
  [[nodiscard]] bool is_usable() const noexcept {
    return !has_ended_ && !is_forked_ && is_for_caller();
  }
  [[nodiscard]] int wait_fd() const noexcept { return timer_.fd(); }

  // ---- with the lock

  /// MPI has been finalised, or does not receive any more.
  [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }

  outcome send(message_lane& from, const lane_header& header,
               std::span<const std::byte> bytes) noexcept override;
  using message_link::post;
  bool post(message_peer& to, lane_message kind,
            std::span<const std::byte> header) noexcept override {
    return post(static_cast<connection&>(to), static_cast<std::uint16_t>(kind), header);
  }
  bool post(connection& to, std::uint16_t kind, std::span<const std::byte> header) noexcept;

  /// Bytes of a copy that MPI reads, or writes, until `ended` is called, once, with the lock.
  struct transfer {
    void (*ended)(void* argument, bool is_good) noexcept = nullptr;
    void* argument = nullptr;
  };
  /// False when MPI does not take it; then `ended` is not called. The transfer stays where it is
  /// until it has ended.
  [[nodiscard]] bool start_send(transfer& t, const connection& to, std::uint32_t tag,
                                const std::byte* from, std::size_t bytes) noexcept;
  [[nodiscard]] bool start_receive(transfer& t, const connection& from, std::uint32_t tag,
                                   std::byte* to, std::size_t bytes) noexcept;
  /// It ends soon, if nothing has come for it yet. Of a receive.
  void cancel(transfer& t) noexcept;

  /// Peers to whom nothing can be sent, as MPI says; each once.
  [[nodiscard]] std::vector<connection*> take_failures() noexcept {
    return std::exchange(failures_, {});
  }
  /// Nothing more is sent to that one.
  void drop_queued(const connection& to) noexcept;
  /// Not everything has gone to MPI, or MPI still needs it.
  [[nodiscard]] bool has_unsent() const noexcept { return !queue_.empty() || sending_ != 0; }

  unsigned poll() noexcept override {
    ++polls_;
    return progress();
  }
  /// The same, for the thread that waits for wait_fd().
  unsigned progress() noexcept;

  // ---- without it

  void arm() noexcept override;
  void look_again() noexcept override;
  /// wait_fd() is readable.
  void on_wake_up() noexcept;

 private:
  /// Memory that MPI receives into, or sends from.
  struct slot {
    MPI_Request request = MPI_REQUEST_NULL;
    std::byte bytes[message_bytes];
  };
  struct queued {
    connection* to;
    std::uint16_t kind;
    std::uint16_t header_bytes;
    std::byte header[most_header];
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
  std::shared_ptr<const owned_communicator> communicator_; ///< until MPI refers to nothing of ours
  threads level_;
  std::span<doorbell> doorbells_;
  int tag_;
  bool has_ended_ = false; ///< MPI has been, or is being, finalised, or was given up
  bool is_forked_ = false;
  poll_timer timer_;

  std::unique_ptr<slot[]> receives_;
  std::size_t next_receive_ = 0; ///< MPI fills them in the order in which they were started
  std::unique_ptr<slot[]> sends_;
  std::vector<slot*> free_sends_;
  std::size_t sending_ = 0;
  std::deque<queued> queue_; ///< what could not be sent at once
  std::vector<transfer*> transfers_;
  // Of transfers_, by the same index, and what MPI_Testsome writes.
  std::vector<MPI_Request> requests_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  std::vector<connection*> failures_;
  // For the one thread that may call MPI.
  std::vector<planned> planned_;
  std::vector<transfer*> to_cancel_;

  std::atomic<bool> is_left_{false};    ///< something waits for the one thread that may call MPI
  std::atomic<bool> is_awaited_{false}; ///< somebody has gone to sleep since the last look
  std::uint64_t polls_ = 0;
  std::uint64_t polls_seen_ = 0; ///< by the progress thread
  time_point last_news_{};       ///< when something has come, or somebody has begun to wait
};

} // namespace farcall::mpi
