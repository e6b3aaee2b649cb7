#pragma once

#include <farcall/transport/card.hpp>
#include <farcall/transport/mpi/engine.hpp>
#include <farcall/transport/mpi/peers.hpp>
#include <farcall/transport/rma_engine.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace farcall::mpi {

/// Copies by messages of MPI's, in pieces, straight from and to the memory of both ends: a put
/// announces its bytes, and a get asks for them, by a small message that names the tag under which
/// they come. Only windows are copied: the peer looks whether an address lies in one of its own.
///
/// MPI takes back nothing that has begun. So where the caller may have to leave before, for a
/// deadline, pieces go through memory of this engine's, which stays until MPI is done with it.
class message_rma final : public farcall::rma_engine {
 public:
  message_rma(engine& by, node_id self, std::vector<memory_window> own, peer_table& peers);
  ~message_rma() override;

  [[nodiscard]] std::uint64_t threshold() const noexcept override;
  [[nodiscard]] bool put(node_id peer, std::uint64_t to, const std::byte* from, std::uint64_t bytes,
                         time_point deadline) noexcept override;
  [[nodiscard]] bool get(node_id peer, std::uint64_t from, std::byte* to, std::uint64_t bytes,
                         time_point deadline) noexcept override;
  [[nodiscard]] bool settle(node_id peer, time_point deadline) noexcept override;
  [[nodiscard]] std::string failure(node_id peer, std::uint64_t address,
                                    std::uint64_t bytes) override;

  // ---- with the lock

  /// A message of copies, from that rank.
  void take(message kind, int rank, const copy_header& h) noexcept;
  /// The peer has been admitted: what it has asked for before is answered.
  void resume(node_id peer) noexcept;
  /// Copies with the peer end.
  void forget(node_id peer) noexcept;

 private:
  struct copy;
  struct piece;
  struct answer;

  [[nodiscard]] bool run(copy& c) noexcept;
  [[nodiscard]] bool start_piece(copy& c);
  void give_up(copy& c) noexcept;
  void leave(piece& p) noexcept;
  void end(piece& p, bool is_good) noexcept;
  void release_if_unused(piece& p) noexcept;
  [[nodiscard]] bool has_late_puts(node_id peer) const noexcept;
  [[nodiscard]] bool wait_for_late_puts(std::unique_lock<std::mutex>& guard, node_id peer,
                                        time_point deadline) noexcept;
  void wait(std::unique_lock<std::mutex>& guard, time_point& idle_since, time_point deadline);

  void take_done(const copy_header& h) noexcept;
  void take_put(connection& from, const copy_header& h);
  void take_get(connection& from, const copy_header& h);
  void reply(connection& to, std::uint64_t id, copy_status status) noexcept;
  [[nodiscard]] bool is_own(std::uint64_t address, std::uint64_t bytes) const noexcept;

  static void on_piece(void* piece, bool is_good) noexcept;
  static void on_answer(void* answer, bool is_good) noexcept;

  engine* engine_;
  node_id self_;
  std::vector<memory_window> own_;
  peer_table* peers_;
  std::condition_variable changed_;
  std::uint64_t next_id_ = 1;
  std::unordered_map<std::uint64_t, std::unique_ptr<piece>> pieces_;
  std::unordered_map<answer*, std::unique_ptr<answer>> answers_;
  struct early {
    message kind;
    int rank;
    copy_header header;
  };
  std::vector<early> early_; ///< asked for by nodes that are not admitted yet
  std::vector<std::unique_ptr<std::byte[]>> kept_blocks_;
  std::unordered_map<node_id, std::string> failures_; ///< of the last copy that failed
};

} // namespace farcall::mpi
