#pragma once

#include <farcall/transport/card.hpp>
#include <farcall/transport/rma_engine.hpp>
#include <farcall/transport/ucx/messages.hpp>
#include <farcall/transport/ucx/worker.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace farcall::ucx {

/// Copies by active messages with data, in pieces: a put sends its bytes, and a get asks for them.
/// UCX moves long data by rendezvous, from and to memory that nobody has registered, without a copy
/// in between. Only windows are copied: the peer looks whether an address lies in one of its own.
///
/// UCX cannot take back a receive that has begun. So where the caller may have to leave before it
/// has ended, for a deadline or because UCX does not notice that a peer has died, pieces go through
/// memory of the engine's, which stays until UCX is done with it.
class active_message_rma final : public farcall::rma_engine {
 public:
  /// What it knows of peers. With the lock.
  class directory {
   public:
    /// With an endpoint. Throws error.
    [[nodiscard]] virtual connection& connected(node_id peer) = 0;
    [[nodiscard]] virtual bool is_inside(node_id peer, std::uint64_t address,
                                         std::uint64_t bytes) const noexcept = 0;

   protected:
    ~directory() = default;
  };

  active_message_rma(worker& by, node_id self, std::vector<memory_window> own, directory& peers);
  ~active_message_rma() override;

  [[nodiscard]] std::uint64_t threshold() const noexcept override;
  [[nodiscard]] bool put(node_id peer, std::uint64_t to, const std::byte* from, std::uint64_t bytes,
                         time_point deadline) noexcept override;
  [[nodiscard]] bool get(node_id peer, std::uint64_t from, std::byte* to, std::uint64_t bytes,
                         time_point deadline) noexcept override;
  [[nodiscard]] bool settle(node_id peer, time_point deadline) noexcept override;
  [[nodiscard]] std::string failure(node_id peer, std::uint64_t address,
                                    std::uint64_t bytes) override;

  // ---- with the lock

  /// A message of copies.
  ucs_status_t take(message kind, const copy_header& h, void* data, std::size_t bytes,
                    bool is_rendezvous) noexcept;
  /// Sends the answers to what has arrived.
  void serve() noexcept;
  /// Copies with the peer end.
  void forget(node_id peer) noexcept;

 private:
  struct copy;
  struct piece;
  struct answer;
  struct arrival;

  [[nodiscard]] bool run(copy& c) noexcept;
  [[nodiscard]] bool start_piece(copy& c);
  void give_up(copy& c) noexcept;
  void end(piece& p, bool is_good) noexcept;
  void release_if_unused(piece& p) noexcept;
  [[nodiscard]] bool has_late_puts(node_id peer) const noexcept;
  /// Until no put that was given up can change the peer's memory. With the lock, which it lets go.
  [[nodiscard]] bool wait_for_late_puts(std::unique_lock<std::mutex>& guard, node_id peer,
                                        time_point deadline) noexcept;
  void wait(std::unique_lock<std::mutex>& guard, time_point& idle_since, time_point deadline);

  ucs_status_t take_put(const copy_header& h, void* data, std::size_t bytes, bool is_rendezvous);
  ucs_status_t take_data(const copy_header& h, void* data, std::size_t bytes, bool is_rendezvous);
  void take_get(const copy_header& h);
  void send(std::unique_ptr<answer> a) noexcept;
  [[nodiscard]] bool is_own(std::uint64_t address, std::uint64_t bytes) const noexcept;

  static void on_piece_sent(void* request, ucs_status_t status, void* piece) noexcept;
  static void on_piece_received(void* request, ucs_status_t status, std::size_t bytes,
                                void* piece) noexcept;
  static void on_answer_sent(void* request, ucs_status_t status, void* answer) noexcept;
  static void on_put_received(void* request, ucs_status_t status, std::size_t bytes,
                              void* arrival) noexcept;

  worker* worker_;
  node_id self_;
  std::vector<memory_window> own_;
  directory* peers_;
  std::condition_variable changed_;
  std::uint64_t next_id_ = 1;
  std::unordered_map<std::uint64_t, std::unique_ptr<piece>> pieces_;
  std::vector<std::unique_ptr<std::byte[]>> kept_blocks_;
  std::vector<std::unique_ptr<answer>> answers_; ///< to be sent
  std::unordered_set<answer*> sending_;
  std::unordered_set<arrival*> arriving_;
  std::unordered_map<node_id, std::string> failures_; ///< of the last copy that failed
};

} // namespace farcall::ucx
