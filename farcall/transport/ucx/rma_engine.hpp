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

/// Copies by active messages with data: a put sends its bytes, and a get asks for them. UCX moves
/// long data by rendezvous, from and to memory that nobody has registered, without a copy in
/// between.
class active_message_rma final : public message_rma {
 public:
  active_message_rma(worker& by, node_id self, std::vector<memory_window> own, peer_table& peers);
  ~active_message_rma() override;

  // ---- with the lock

  /// A message of copies.
  ucs_status_t take(message kind, const copy_header& h, void* data, std::size_t bytes,
                    bool is_rendezvous) noexcept;
  /// Sends the replies to what has arrived.
  void serve() noexcept;
  /// Sends the replies that had to wait until the peer was admitted.
  void resume(node_id peer) noexcept;
  /// Copies with the peer end.
  void forget(node_id peer) noexcept;

 private:
  struct sent_piece;
  struct answer;
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
  /// True if the reply waits for resume().
  [[nodiscard]] bool keep_early(std::unique_ptr<answer>& a) noexcept;
  void send(std::unique_ptr<answer> a) noexcept;

  static void on_piece_sent(void* request, ucs_status_t status, void* piece) noexcept;
  static void on_piece_received(void* request, ucs_status_t status, std::size_t bytes,
                                void* piece) noexcept;
  static void on_answer_sent(void* request, ucs_status_t status, void* answer) noexcept;
  static void on_put_received(void* request, ucs_status_t status, std::size_t bytes,
                              void* arrival) noexcept;

  worker* worker_;
  node_id self_;
  peer_table* peers_;
  std::vector<std::unique_ptr<answer>> answers_; ///< to be sent
  std::vector<std::unique_ptr<answer>> early_;   ///< to nodes that are not admitted yet
  std::unordered_set<answer*> sending_;
  std::unordered_set<arrival*> arriving_;
};

} // namespace farcall::ucx
