// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/card.hpp>
#include <farcall/transport/message_rma.hpp>
#include <farcall/transport/ucx/messages.hpp>
#include <farcall/transport/ucx/peers.hpp>
#include <farcall/transport/ucx/worker.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

namespace farcall::ucx {

/// Copies by active messages with data: a put sends its bytes, and a get requests them. UCX moves
/// long data by rendezvous, from and to unregistered memory, without an intermediate copy.
class active_message_rma final : public message_rma {
 public:
  active_message_rma(worker& by, node_id self, std::vector<memory_window> own, peer_table& peers);
  ~active_message_rma() override;

  // ---- with the lock

  /// Handles a received message about a copy.
  ucs_status_t take(message kind, const copy_header& h, void* data, std::size_t bytes,
                    bool is_rendezvous) noexcept;
  /// Sends all replies that wait to be sent. A reply to a peer that is not admitted yet is stored
  /// instead.
  void serve() noexcept;
  /// Sends the stored replies to a peer, which has now been admitted.
  void resume(node_id peer) noexcept;
  /// Ends all copies to and from this peer.
  void forget(node_id peer) noexcept;

 private:
  struct sent_piece;
  struct response;
  struct arrival;

  bool is_forked() const noexcept override { return worker_->is_forked(); }
  bool is_inside(node_id peer, std::uint64_t address, std::uint64_t bytes) const noexcept override {
    return peers_->is_inside(peer, address, bytes);
  }
  message_peer& connected(node_id peer) override { return peers_->connected(peer); }
  std::unique_ptr<piece> make_piece() override;
  void start(piece& p) noexcept override;
  bool may_stay(const piece& p) const noexcept override;

  ucs_status_t take_put(const copy_header& h, void* data, std::size_t bytes, bool is_rendezvous);
  ucs_status_t take_data(const copy_header& h, void* data, std::size_t bytes, bool is_rendezvous);
  void take_get(const copy_header& h);
  /// If the receiver of a reply is not admitted yet, stores the reply until resume() sends it.
  /// Returns true if the reply was stored.
  [[nodiscard]] bool keep_early(std::unique_ptr<response>& a) noexcept;
  void send(std::unique_ptr<response> a) noexcept;

  static void on_piece_sent(void* request, ucs_status_t status, void* piece) noexcept;
  static void on_piece_received(void* request, ucs_status_t status, std::size_t bytes,
                                void* piece) noexcept;
  static void on_reply_sent(void* request, ucs_status_t status, void* response) noexcept;
  static void on_put_received(void* request, ucs_status_t status, std::size_t bytes,
                              void* arrival) noexcept;

  worker* worker_;
  node_id self_;
  peer_table* peers_;
  std::vector<std::unique_ptr<response>> replies_; ///< replies to be sent
  std::vector<std::unique_ptr<response>> early_; ///< stored replies to nodes that are not admitted
                                                 ///< yet
  std::unordered_set<response*> sending_;
  std::unordered_set<arrival*> arriving_;
};

} // namespace farcall::ucx
