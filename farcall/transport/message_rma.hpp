#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/message_link.hpp>
#include <farcall/transport/rma_engine.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace farcall {

/// What copies over networks of messages (UCX, MPI) have in common. A copy goes in pieces, some of
/// them under way at once, from and to the memory of both ends. Only windows are copied: the peer
/// looks whether an address lies in one of its own.
///
/// The networks take back nothing that has begun. So where the caller may have to leave before it
/// has ended, for a deadline, pieces go through memory of the engine's, which stays until the
/// network is done with it.
class message_rma : public rma_engine {
 public:
  ~message_rma() override;
  message_rma(const message_rma&) = delete;
  message_rma& operator=(const message_rma&) = delete;

  [[nodiscard]] std::uint64_t threshold() const noexcept override;
  [[nodiscard]] bool put(node_id peer, std::uint64_t to, const std::byte* from, std::uint64_t bytes,
                         time_point deadline) noexcept override;
  [[nodiscard]] bool get(node_id peer, std::uint64_t from, std::byte* to, std::uint64_t bytes,
                         time_point deadline) noexcept override;
  [[nodiscard]] bool settle(node_id peer, time_point deadline) noexcept override;
  [[nodiscard]] std::string failure(node_id peer, std::uint64_t address,
                                    std::uint64_t bytes) override;

 protected:
  struct copy;

  /// Bytes of a copy that go in one message. The derived class adds what its network needs.
  struct piece {
    piece() = default;
    virtual ~piece() = default;
    piece(const piece&) = delete;
    piece& operator=(const piece&) = delete;

    copy* of = nullptr; ///< null: the copy was given up
    message_peer* to = nullptr;
    std::uint64_t id = 0;    ///< chosen here; the peer's answer names it
    std::uint64_t there = 0; ///< address of the peer's memory
    std::uint32_t bytes = 0;
    bool is_put = false;
    std::byte* memory = nullptr; ///< where the network reads or writes
    std::byte* target = nullptr; ///< of a get that is bounced: where the bytes go in the end
    std::unique_ptr<std::byte[]> bounce;
    bool is_with_network = false; ///< it reads or writes `memory`, or reads the piece
    bool has_ended = false;       ///< the peer has answered, or will not
    bool is_good = false;
  };

  /// One message. A deadline, and other lanes, wait for one of them at most.
  static constexpr std::uint32_t piece_bytes = std::uint32_t{1} << 20;

  message_rma(message_link& link, std::vector<memory_window> own);

  // ---- what the derived class does; with the link's lock

  /// Nothing can be done by this copy of the engine: a child of a fork. Without the lock.
  [[nodiscard]] virtual bool is_forked() const noexcept = 0;
  /// Whether [address, address + bytes) lies in a window of the peer's.
  [[nodiscard]] virtual bool is_inside(node_id peer, std::uint64_t address,
                                       std::uint64_t bytes) const noexcept = 0;
  /// One that can be sent to. Throws error.
  [[nodiscard]] virtual message_peer& connected(node_id peer) = 0;
  /// Throws std::bad_alloc.
  [[nodiscard]] virtual std::unique_ptr<piece> make_piece() = 0;
  /// Sends the bytes of a put, or asks for those of a get; was_sent() or end() follow, now or
  /// later.
  virtual void start(piece& p) noexcept = 0;
  /// Whether the network may keep a piece for ever whose peer is gone, without doing anything more
  /// with its memory.
  [[nodiscard]] virtual bool may_stay(const piece& p) const noexcept = 0;
  /// Of a piece that has ended while the network has it: takes it back if that can be done. May end
  /// it.
  virtual void withdraw(piece& /*p*/) noexcept {}

  // ---- for the derived class; with the link's lock

  /// The network is done with what was sent: the bytes of a put, or the request of a get.
  void was_sent(piece& p, bool is_good) noexcept;
  /// The peer has answered, or will not.
  void end(piece& p, bool is_good) noexcept;
  /// A piece that waits for that peer; null when there is none.
  [[nodiscard]] piece* find(std::uint64_t id, node_id peer) noexcept;
  /// Copies with the peer end.
  void end_all(node_id peer) noexcept;
  /// Whether [address, address + bytes) lies in a window of ours. Says so if it does not.
  [[nodiscard]] bool check_own(node_id peer, std::uint64_t address,
                               std::uint64_t bytes) const noexcept;

 private:
  [[nodiscard]] bool run(copy& c) noexcept;
  [[nodiscard]] bool start_piece(copy& c);
  void give_up(copy& c) noexcept;
  void leave(piece& p) noexcept;
  void release_if_unused(piece& p) noexcept;
  [[nodiscard]] bool has_late_puts(node_id peer) const noexcept;
  [[nodiscard]] bool wait_for_late_puts(std::unique_lock<std::mutex>& guard, node_id peer,
                                        time_point deadline) noexcept;
  void wait(std::unique_lock<std::mutex>& guard, time_point& idle_since, time_point deadline);

  message_link* link_;
  std::vector<memory_window> own_;
  std::condition_variable changed_;
  std::uint64_t next_id_ = 1;
  std::unordered_map<std::uint64_t, std::unique_ptr<piece>> pieces_;
  std::vector<std::unique_ptr<std::byte[]>> kept_blocks_;
  std::unordered_map<node_id, std::string> failures_; ///< of the last copy that failed
};

} // namespace farcall
