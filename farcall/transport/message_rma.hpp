// SPDX-License-Identifier: Apache-2.0
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

/// Common part of the RMA engines over message networks (UCX, MPI). A copy between memory of both
/// ends is made in pieces, of which several are in flight at once. Only memory windows can be
/// copied: the peer checks that each address is in one of its windows.
///
/// The networks cannot cancel a copy that has begun, but a caller with a deadline may return before
/// its copy has ended. The pieces of such a caller's copy therefore go through bounce blocks, which
/// the engine keeps until the network no longer uses them.
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

  /// Part of a copy that is sent in one message. Derived classes add the data that their network
  /// needs.
  struct piece {
    piece() = default;
    virtual ~piece() = default;
    piece(const piece&) = delete;
    piece& operator=(const piece&) = delete;

    copy* of = nullptr; ///< copy that waits for this piece; null if that copy was given up
    message_peer* to = nullptr;
    std::uint64_t id = 0;    ///< number of this piece, which the peer's reply repeats
    std::uint64_t there = 0; ///< address in the peer's memory
    std::uint32_t bytes = 0;
    bool is_put = false;
    std::byte* memory = nullptr; ///< memory that the network reads or writes
    std::byte* target = nullptr; ///< for a bounced get: destination in the caller's memory
    std::unique_ptr<std::byte[]> bounce;
    bool is_with_network = false; ///< true while the network uses `memory` or this object
    /// True once the peer has replied to this piece, or if it never will.
    bool has_ended = false;
    bool is_good = false;
  };

  /// Largest number of bytes of a piece. Each piece is one message, so that a caller with a
  /// deadline, and other lanes, wait for the bytes of at most one piece.
  static constexpr std::uint32_t piece_bytes = std::uint32_t{1} << 20;

  message_rma(message_link& link, std::vector<memory_window> own);

  // ---- implemented by the derived class, and called with the link's lock

  /// True if this process is a child made by fork(), which cannot use its copy of the engine.
  /// Called without the lock.
  [[nodiscard]] virtual bool is_forked() const noexcept = 0;
  /// True if [address, address + bytes) is in a window of the peer.
  [[nodiscard]] virtual bool is_inside(node_id peer, std::uint64_t address,
                                       std::uint64_t bytes) const noexcept = 0;
  /// Returns the object of this peer, and first connects to the peer if that was not done before.
  /// Throws error.
  [[nodiscard]] virtual message_peer& connected(node_id peer) = 0;
  /// Throws std::bad_alloc.
  [[nodiscard]] virtual std::unique_ptr<piece> make_piece() = 0;
  /// Sends the bytes of a put, or requests the bytes of a get. Calls was_sent() or end() for the
  /// piece, at once or later.
  virtual void start(piece& p) noexcept = 0;
  /// True if a copy need not wait for this piece although the network still has it. This is so if
  /// the peer is gone and the network may keep the piece for ever, but no longer uses the piece's
  /// memory.
  [[nodiscard]] virtual bool may_stay(const piece& p) const noexcept = 0;
  /// Called for a piece that has ended although the network still works on it. Cancels the
  /// network's operation if the network can do so. May destroy the piece.
  virtual void withdraw(piece& /*p*/) noexcept {}

  // ---- called by the derived class, which holds the link's lock

  /// Called when the network no longer needs the message of a piece, that is, the bytes of a put or
  /// the request of a get. `is_good` is false if the message was not sent.
  void was_sent(piece& p, bool is_good) noexcept;
  /// Called when a piece has ended, because the peer has replied to it, or because the peer never
  /// will.
  void end(piece& p, bool is_good) noexcept;
  /// Returns the piece with this number that waits for a reply of this peer; null if there is none.
  [[nodiscard]] piece* find(std::uint64_t id, node_id peer) noexcept;
  /// Ends all copies to and from this peer.
  void end_all(node_id peer) noexcept;
  /// True if [address, address + bytes) is in a window of this node. Otherwise logs an error and
  /// returns false.
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
  /// Reason of the last failed copy to or from each peer.
  std::unordered_map<node_id, std::string> failures_;
};

} // namespace farcall
