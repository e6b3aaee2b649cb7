// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/card.hpp>
#include <farcall/transport/message_rma.hpp>
#include <farcall/transport/mpi/engine.hpp>
#include <farcall/transport/mpi/peers.hpp>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace farcall::mpi {

/// Copies by MPI messages, directly from and to the memory of both ends. A small message announces
/// a put, or requests a get, and names the tag of the message that has the bytes.
class tagged_rma final : public message_rma {
 public:
  tagged_rma(engine& by, node_id self, std::vector<memory_window> own, peer_table& peers);
  ~tagged_rma() override;

  // ---- with the lock

  /// Handles a message about a copy. The sender is the process with rank `rank`.
  void take(message kind, int rank, const copy_header& h) noexcept;
  /// Handles the stored requests of a peer, which has now been admitted.
  void resume(node_id peer) noexcept;
  /// Ends all copies to and from this peer.
  void forget(node_id peer) noexcept;

 private:
  struct sent_piece;
  struct response;
  struct early {
    message kind;
    int rank;
    copy_header header;
  };

  bool is_forked() const noexcept override { return engine_->is_forked(); }
  bool is_inside(node_id peer, std::uint64_t address, std::uint64_t bytes) const noexcept override {
    return peers_->is_inside(peer, address, bytes);
  }
  message_peer& connected(node_id peer) override { return peers_->connected(peer); }
  std::unique_ptr<piece> make_piece() override;
  void start(piece& p) noexcept override;
  /// Always true: if the peer is gone, MPI may keep a send to it for ever, but no longer reads the
  /// memory of the piece.
  bool may_stay(const piece& /*p*/) const noexcept override { return true; }
  void withdraw(piece& p) noexcept override;

  void take_done(const copy_header& h) noexcept;
  void take_put(connection& from, const copy_header& h);
  void take_get(connection& from, const copy_header& h);
  [[nodiscard]] bool announce(message kind, const sent_piece& p, std::uint32_t tag) noexcept;
  void reply(connection& to, std::uint64_t id, copy_status status) noexcept;

  static void on_piece(void* piece, bool is_good) noexcept;
  static void on_reply(void* response, bool is_good) noexcept;

  engine* engine_;
  node_id self_;
  peer_table* peers_;
  std::unordered_map<response*, std::unique_ptr<response>> replies_;
  std::vector<early> early_; ///< stored requests of nodes that are not admitted yet
};

} // namespace farcall::mpi
