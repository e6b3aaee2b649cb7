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

/// What a network of messages (UCX, MPI) has to do so that lanes run over it.
namespace farcall {

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): it is final
class message_lane;

/// A node that something was sent to, or that has sent something, and the lanes between it and us.
/// Everything with the link's lock.
struct message_peer {
  /// A place for a lane that we open. A lane is in it until the peer has given it back.
  struct place {
    std::unique_ptr<message_lane> open;
    std::uint32_t uses = 0;
  };

  message_peer();
  ~message_peer();
  message_peer(const message_peer&) = delete;
  message_peer& operator=(const message_peer&) = delete;

  node_id node = no_node;
  std::uint64_t key = 0;   ///< goes into all headers
  bool has_failed = false; ///< the network has told us
  bool is_gone = false;    ///< or the job has: nothing is sent any more
  std::vector<place> opened;
  std::vector<std::uint32_t> free_places;
  std::vector<std::unique_ptr<message_lane>> accepted; ///< by the opener's place
};

/// Carries messages between this process and its peers, in order for each peer. One lock guards it
/// and the lanes; who polls only tries it.
class message_link {
 public:
  message_link(const message_link&) = delete;
  message_link& operator=(const message_link&) = delete;

  [[nodiscard]] std::mutex& mutex() noexcept { return mutex_; }

  /// Whether the calling thread may use the network at all. What others do waits until one that may
  /// polls.
  [[nodiscard]] bool is_for_caller() const noexcept {
    return only_for_ == std::thread::id{} || only_for_ == std::this_thread::get_id();
  }

  /// Whether what is put off goes soon although nobody polls.
  [[nodiscard]] bool moves_by_itself() const noexcept { return only_for_ == std::thread::id{}; }

  /// The most bytes of a lane that one message takes.
  [[nodiscard]] std::size_t most_bytes() const noexcept { return most_bytes_; }

  // ---- with the lock

  enum class outcome {
    sent,      ///< the bytes are needed no longer
    under_way, ///< header and bytes have to stay until message_lane::was_sent()
    later,     ///< not now: the link calls message_lane::serve() when it may be tried again
    failed     ///< the peer cannot be reached
  };
  /// Sends a part of a lane.
  [[nodiscard]] virtual outcome send(message_lane& from, const lane_header& header,
                                     std::span<const std::byte> bytes) noexcept = 0;

  /// Sends a header alone. False when that cannot be done, and will not.
  virtual bool post(message_peer& to, lane_message kind,
                    std::span<const std::byte> header) noexcept = 0;
  template <class Header>
  bool post(message_peer& to, lane_message kind, const Header& header) noexcept {
    return post(to, kind, std::as_bytes(std::span(&header, 1)));
  }

  /// Takes in what has arrived, and goes on with what is under way, for a user who polls. Returns
  /// how much there was.
  virtual unsigned poll() noexcept = 0;

  /// message_lane::serve() follows, once the network can be called again.
  void serve_soon(message_lane& l) { due_.push_back(&l); }
  /// Not that one, which goes.
  void serve_never(const message_lane& l) noexcept { std::erase(due_, &l); }
  /// Those lanes. Each once or more often.
  [[nodiscard]] std::vector<message_lane*> take_due() noexcept { return std::exchange(due_, {}); }
  [[nodiscard]] bool has_due() const noexcept { return !due_.empty(); }

  // ---- without it

  /// From now on what arrives makes the transport's descriptor readable.
  virtual void arm() noexcept = 0;
  /// Something was left for the progress thread: that descriptor becomes readable soon.
  virtual void look_again() noexcept = 0;

 protected:
  explicit message_link(std::size_t most_bytes, std::thread::id only_for = {}) noexcept
      : most_bytes_(most_bytes), only_for_(only_for) {}
  ~message_link() = default;

 private:
  std::mutex mutex_;
  std::size_t most_bytes_;
  std::thread::id only_for_;
  std::vector<message_lane*> due_;
};

} // namespace farcall
