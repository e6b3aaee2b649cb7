#pragma once

#include <farcall/base/limited_log.hpp>
#include <farcall/transport/message_lane.hpp>
#include <farcall/transport/message_link.hpp>
#include <farcall/transport/transport.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace farcall {

/// What transports over networks of messages have in common: the lanes to and from each peer, how
/// they are opened, accepted and given back, and what becomes of those whose peer is gone. Whoever
/// derives from it knows the peers, and calls take_lane_message() and after_progress().
class message_transport : public transport {
 public:
  message_transport(const message_transport&) = delete;
  message_transport& operator=(const message_transport&) = delete;

  transport_traits traits() const noexcept override {
    return {record_limit(site_.ring_bytes), false};
  }
  void admit(const card& peer) override;
  endpoint open(node_id peer, const lane_shape& shape) override;
  const std::atomic<std::uint32_t>& arrivals() const noexcept override { return arrivals_; }
  std::optional<endpoint> accept() override;
  bool is_closed(const endpoint& accepted) const noexcept override;
  void close(const endpoint& end) noexcept override;
  void forget(node_id peer) noexcept override;
  void arm() noexcept override { link_->arm(); }

 protected:
  struct message_site {
    std::string network; ///< for people: "UCX"
    node_id self = 0;
    std::size_t nodes = 1;
    std::uint32_t ring_bytes = 0;
    std::span<doorbell> doorbells;
  };

  /// Throws error where the job has too many nodes, or the system has no random numbers.
  explicit message_transport(message_site site);
  /// Before anything else; the link lives as long as the derived class.
  void attach(message_link& link) noexcept { link_ = &link; }

  // ---- what the derived class knows; with the link's lock, except where said

  /// Remembers the card. Without the lock. Throws error.
  virtual void take_card(const card& peer) = 0;
  /// Without the lock. False for numbers of no node.
  [[nodiscard]] virtual bool is_admitted(node_id peer) const noexcept = 0;
  /// Null for a peer that is not used.
  [[nodiscard]] virtual message_peer* find_peer(node_id peer) noexcept = 0;
  /// Of any node, also one that is not admitted yet; the same for as long as the transport lives.
  /// Throws std::bad_alloc.
  [[nodiscard]] virtual message_peer& use_peer(node_id peer) = 0;
  /// The same, ready to be sent to. Throws error.
  [[nodiscard]] virtual message_peer& connect_peer(node_id peer) = 0;
  virtual void for_each_used(const std::function<void(message_peer&)>& f) = 0;
  /// Connected, and neither failed nor gone.
  [[nodiscard]] virtual bool is_up(const message_peer& peer) const noexcept = 0;
  /// Nothing goes there, and nothing comes, any more.
  virtual void cut_peer(message_peer& peer) noexcept = 0;
  /// Nothing can be done by this copy of the transport: a child of a fork.
  [[nodiscard]] virtual bool is_forked() const noexcept = 0;

  // ---- for the derived class; with the link's lock

  void take_lane_message(lane_message kind, std::span<const std::byte> header,
                         std::span<const std::byte> bytes) noexcept;
  /// Of a node that may be in the job, knows our key, and is not gone.
  [[nodiscard]] bool is_from_peer(std::uint64_t key, std::uint32_t from) noexcept;
  /// Goes on with what messages and completions have made possible.
  void after_progress() noexcept;
  /// What nobody does by polling. At each of the progress thread's turns.
  void sweep() noexcept;
  /// The network says that the peer is gone.
  void lose_peer(message_peer& peer) noexcept;
  /// Something that was committed has not gone.
  [[nodiscard]] bool has_unsent() noexcept;

  [[nodiscard]] const message_site& site() const noexcept { return site_; }
  /// What peers have to name in all that they send; nobody can guess it.
  [[nodiscard]] std::uint64_t key() const noexcept { return key_; }

 private:
  endpoint publish(message_lane& l, node_id peer, std::uint32_t worker, bool own_worker,
                   std::uint64_t bit);
  message_lane* unpublish(std::uint64_t id) noexcept;
  [[nodiscard]] bool is_published(const message_lane& l) const noexcept;
  void retire(std::unique_ptr<message_lane> l) noexcept;
  void free_place(message_peer& p, std::uint32_t place) noexcept;
  void free_closed(message_peer& p) noexcept;
  void mark_gone(node_id peer) noexcept;
  message_lane* lane_for(std::span<const std::byte> header, lane_header& h) noexcept;
  void take_open(std::span<const std::byte> header) noexcept;
  void take_closed(std::span<const std::byte> header) noexcept;
  void offer(const endpoint& end);
  [[nodiscard]] std::size_t doorbell_of(std::uint32_t worker) const noexcept;
  void lose(message_lane& l) noexcept;
  void connect_openers() noexcept;

  message_site site_;
  std::uint64_t key_;
  message_link* link_ = nullptr;
  /// Of lanes that users have; taken after the link's lock.
  mutable std::mutex table_mutex_;
  std::uint64_t next_id_ = 2;
  std::map<std::uint64_t, message_lane*> lanes_;
  std::deque<endpoint> waiting_;
  std::atomic<std::uint32_t> arrivals_{0};
  // With the link's lock.
  std::vector<endpoint> early_; ///< opened by nodes that are not admitted yet
  std::vector<node_id> to_connect_;
  std::vector<std::unique_ptr<message_lane>> retired_;     ///< whose last message is under way
  std::vector<std::pair<time_point, message_lane*>> lost_; ///< whose users are told then
  log::limited_log refusals_;
};

} // namespace farcall
