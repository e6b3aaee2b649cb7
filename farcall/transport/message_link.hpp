// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/transport/lane_messages.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

/// Interface to a message network (UCX, MPI) over which lanes run.
namespace farcall {

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): it is final
class message_lane;

/// A node with which this one has exchanged messages, and the lanes between the two. The link's
/// lock guards all members.
struct message_peer {
  /// A place for a lane that this node opens. The lane stays in its place until the peer has given
  /// the lane back.
  struct place {
    std::unique_ptr<message_lane> open;
    std::uint32_t uses = 0;
  };

  message_peer();
  ~message_peer();
  message_peer(const message_peer&) = delete;
  message_peer& operator=(const message_peer&) = delete;

  node_id node = no_node;
  std::uint64_t key = 0;   ///< sent in all headers
  bool has_failed = false; ///< true if the network has reported that the peer has failed
  /// True if the job has reported that the peer is gone, so that nothing more is sent.
  bool is_gone = false;
  std::vector<place> opened;
  std::vector<std::uint32_t> free_places;
  std::vector<std::unique_ptr<message_lane>> accepted; ///< index: the opener's place
};

/// Carries messages between this process and its peers, and keeps the order of messages to each
/// peer. One lock guards the link and its lanes. Threads that poll try to take this lock, and do
/// not wait for it.
class message_link {
 public:
  message_link(const message_link&) = delete;
  message_link& operator=(const message_link&) = delete;

  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }

  /// True if the calling thread may use the network. Any other thread leaves its work to a
  /// permitted thread, which does the work when it polls.
  [[nodiscard]] bool is_for_caller() const noexcept {
    return only_for_ == std::thread::id{} || only_for_ == std::this_thread::get_id();
  }

  /// True if the event loop may use the network, too, so that deferred work is done soon even if no
  /// user's thread polls.
  [[nodiscard]] bool moves_by_itself() const noexcept { return only_for_ == std::thread::id{}; }

  /// Returns the largest number of a lane's bytes that fit into one message.
  [[nodiscard]] std::size_t max_bytes() const noexcept { return max_bytes_; }

  // ---- with the lock

  enum class outcome {
    sent,      ///< the message was sent, and its bytes are no longer needed
    under_way, ///< header and bytes must stay in place until message_lane::was_sent()
    /// Not possible now: the link calls message_lane::serve() when the lane may try again.
    later,
    failed ///< the peer cannot be reached
  };
  /// Sends a part of a lane's bytes in one message.
  [[nodiscard]] virtual outcome send(message_lane& from, const lane_header& header,
                                     std::span<const std::byte> bytes) noexcept = 0;

  /// Sends a message that consists of a header only. Returns false if the header can be sent
  /// neither now nor later.
  virtual bool post(message_peer& to, lane_message kind,
                    std::span<const std::byte> header) noexcept = 0;
  template <class Header>
  bool post(message_peer& to, lane_message kind, const Header& header) noexcept {
    return post(to, kind, std::as_bytes(std::span(&header, 1)));
  }

  /// Receives messages and continues sends, on behalf of a user that polls. Returns the number of
  /// events.
  virtual unsigned poll() noexcept = 0;

  /// Notes that this lane's message_lane::serve() has to run as soon as the network can be called
  /// again.
  void serve_soon(message_lane& l) { due_.push_back(&l); }
  /// Removes a lane that is about to be destroyed from the list of lanes to serve.
  void serve_never(const message_lane& l) noexcept { std::erase(due_, &l); }
  /// Returns the list of lanes to serve, and empties it. A lane may be in the list more than once.
  [[nodiscard]] std::vector<message_lane*> take_due() noexcept { return std::exchange(due_, {}); }
  [[nodiscard]] bool has_due() const noexcept { return !due_.empty(); }

  // ---- without the lock

  /// Arms the transport's descriptor: from now on, messages that arrive make it readable.
  virtual void arm() noexcept = 0;
  /// Makes the transport's descriptor readable soon, so that the event loop does the work that the
  /// calling thread has left to it.
  virtual void poll_again() noexcept = 0;

 protected:
  explicit message_link(std::size_t max_bytes, std::thread::id only_for = {}) noexcept
      : max_bytes_(max_bytes), only_for_(only_for) {}
  ~message_link() = default;

 private:
  std::mutex mutex_;
  std::size_t max_bytes_;
  std::thread::id only_for_;
  std::vector<message_lane*> due_;
};

} // namespace farcall
