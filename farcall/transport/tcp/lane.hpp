#pragma once

#include <farcall/base/line_aligned_memory.hpp>
#include <farcall/memory/bell.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/tcp/opening.hpp>
#include <farcall/transport/tcp/reactor.hpp>
#include <farcall/transport/tcp/stream.hpp>
#include <farcall/transport/transport.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace farcall::tcp {

/// One end of a lane over a connection. What its user commits goes out of the ring as it stands
/// there, and what comes in goes into the other ring as it stood in the peer's: a position in the
/// stream is a position in the ring, which has one size on both ends. A ring that is full stops the
/// socket from being read, so that the system's flow control is the lane's.
///
/// Whoever uses the lane moves the bytes while it looks for some; the reactor does when the user
/// sleeps, or has found nothing for a while.
class lane_end final : public carrier,
                       public event_handler,
                       public std::enable_shared_from_this<lane_end> {
 public:
  /// `wakes` is the bell of the lane's user here. The opener's end takes the end of the connection
  /// for a loss, the acceptor's for the opener's goodbye.
  lane_end(reactor& loop, std::uint32_t ring_bytes, bell& wakes, bool is_opener);
  ~lane_end() override;

  /// Both ends of the rings, for the lane's user.
  void fill(channel& end) noexcept;

  /// The connection stands: sends `first`, then what was committed meanwhile. Once, on the
  /// reactor's thread.
  void attach(std::unique_ptr<stream> connection, std::span<const std::byte> first);
  /// The connection did not come about.
  void give_up(const std::string& why);
  /// The same, unless it has come about. On the reactor's thread.
  void give_up_if_late(const std::string& why) {
    if (!is_attached_.load(std::memory_order_acquire) && !has_ended()) give_up(why);
  }

  void progress() noexcept override;
  void watch() noexcept override;
  void on_event(std::uint32_t events) noexcept override;

  /// Sends what its user had put off.
  void send_deferred() noexcept;

  /// The peer has ended its sending in order, and all that it sent lies in the ring.
  [[nodiscard]] bool has_ended() const noexcept {
    return state_.load(std::memory_order_acquire) != state::open;
  }

  /// The user is done with the rings; what was committed is still sent, what comes is dropped.
  void finish() noexcept;
  /// After finish(): the peer has not taken everything yet. A socket that is closed before that, or
  /// with something unread, may lose what it has sent.
  [[nodiscard]] bool is_lingering() noexcept;
  /// Something was committed that has not gone to the system.
  [[nodiscard]] bool has_unsent() noexcept;
  /// Gives the connection up at once. The rings stay.
  void cut() noexcept;

 private:
  enum class state : std::uint8_t {
    open,
    ended, ///< by the peer, in order
    lost,
  };

  static void committed(void* self) noexcept;
  void flush() noexcept;
  void flush_locked() noexcept;
  void receive_locked() noexcept;
  [[nodiscard]] bool is_established() const noexcept;
  [[nodiscard]] std::size_t parts_to_fill(std::array<iovec, 3>& parts) noexcept;
  void publish_records() noexcept;
  void put_word(std::uint64_t position, std::uint32_t word) noexcept;
  [[nodiscard]] std::uint32_t word_at(std::uint64_t position) const noexcept;
  void drop_received() noexcept;
  void end(state how) noexcept;
  void declare_lost() noexcept;
  void arm() noexcept;

  reactor* loop_;
  std::uint32_t size_;
  bell* wakes_;
  bool is_opener_;
  line_aligned_memory rings_; ///< out, then in

  // ---- sending; send_mutex_
  std::mutex send_mutex_;
  std::vector<std::byte> first_;      ///< goes before the ring's bytes
  std::uint64_t walked_ = 0;          ///< up to here the ring holds whole records
  std::uint64_t sent_ = 0;            ///< up to here they went to the system
  std::atomic<bool> deferred_{false}; ///< the user counts on the reactor to send
  std::atomic<bool> is_out_blocked_{false};
  bool is_refused_ = false; ///< by our user, who sends no more
  bool is_finishing_ = false;
  bool is_finished_ = false;
  std::atomic<time_point::rep> send_again_{0}; ///< before that, commits are put off
  alignas(line_bytes) std::atomic<std::uint64_t> out_consumed_{0};

  // ---- receiving; receive_mutex_
  std::mutex receive_mutex_;
  std::uint64_t whole_ = 0;    ///< up to here the user sees records
  std::uint64_t received_ = 0; ///< up to here bytes have come
  /// First word of the record at whole_, which the user must not see before the rest is there.
  std::uint32_t word_ = 0;
  bool is_garbled_ = false;
  bool is_full_ = false;
  bool is_dropping_ = false;
  unsigned misses_ = 0; ///< looks since something came
  time_point quiet_since_{};
  alignas(line_bytes) std::atomic<std::uint64_t> in_consumed_{0};

  std::atomic<bool> is_watched_{false}; ///< by the reactor, which then receives
  std::atomic<bool> is_attached_{false};
  std::atomic<state> state_{state::open};
  std::mutex arm_mutex_;
  std::unique_ptr<stream> stream_; ///< constant once is_attached_
};

} // namespace farcall::tcp
