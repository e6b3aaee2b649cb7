// SPDX-License-Identifier: Apache-2.0
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

/// Common part of transports over message networks such as UCX and MPI. This class opens, accepts
/// and gives back the lanes to and from each peer, and ends them if the peer is gone. The derived
/// class manages the peers, and calls take_lane_message() and after_progress().
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
  void note_failure(node_id peer) noexcept override;
  void forget(node_id peer) noexcept override;
  void arm() noexcept override { link_->arm(); }

 protected:
  struct message_site {
    std::string network; ///< name for messages: "UCX"
    node_id self = 0;
    std::size_t nodes = 1;
    std::uint32_t ring_bytes = 0;
    std::span<doorbell> doorbells;
  };

  /// Throws error if the job has too many nodes, or if the system provides no random numbers.
  explicit message_transport(message_site site);
  /// Stores the link. Called before any other member. The link lives as long as the derived class.
  void attach(message_link& link) noexcept { link_ = &link; }

  // ---- implemented by the derived class; called with the link's lock unless the comment says
  // otherwise

  /// Stores the card of a peer that has joined. Called without the lock. Throws error.
  virtual void take_card(const card& peer) = 0;
  /// True if the node with number `peer` was admitted. False also if no node has this number.
  /// Called without the lock.
  [[nodiscard]] virtual bool is_admitted(node_id peer) const noexcept = 0;
  /// Returns the object of the peer, or null if this process has not used that peer so far.
  [[nodiscard]] virtual message_peer* find_peer(node_id peer) noexcept = 0;
  /// Returns the object of the node `peer`, which need not be admitted yet. The object stays at its
  /// address as long as the transport lives. Throws std::bad_alloc.
  [[nodiscard]] virtual message_peer& use_peer(node_id peer) = 0;
  /// Like use_peer(), but also connects the peer, so that messages can be sent to it. Throws error.
  [[nodiscard]] virtual message_peer& connect_peer(node_id peer) = 0;
  virtual void for_each_used(const std::function<void(message_peer&)>& f) = 0;
  /// True if the peer is connected, has not failed and has not left.
  [[nodiscard]] virtual bool is_up(const message_peer& peer) const noexcept = 0;
  /// Ends the traffic with the peer in both directions.
  virtual void cut_peer(message_peer& peer) noexcept = 0;
  /// True if this process is a child made by fork(), which cannot use its copy of the transport.
  [[nodiscard]] virtual bool is_forked() const noexcept = 0;

  /// True if both ends of a lane with the peer have numbers that fit the headers of messages.
  [[nodiscard]] bool has_number_for_lanes(node_id peer) const noexcept {
    return site_.self < max_nodes && peer < max_nodes;
  }
  /// Reason why a node for which has_number_for_lanes() is false cannot be reached.
  static constexpr const char* high_number =
      "the numbers of nodes are too high for its messages: the job has started too many nodes";

  // ---- called by the derived class, which holds the link's lock

  void take_lane_message(lane_message kind, std::span<const std::byte> header,
                         std::span<const std::byte> bytes) noexcept;
  /// True if a message with this key and sender may be handled. The key must be our own key, and
  /// the sender must be another node of the job that is not gone.
  [[nodiscard]] bool is_from_peer(std::uint64_t key, std::uint32_t from) noexcept;
  /// Does the work that has become possible because messages have arrived or sends have completed.
  void after_progress() noexcept;
  /// Does the work that the users' polls have left undone. Called in each iteration of the event
  /// loop.
  void sweep() noexcept;
  /// Called when the network reports that the peer is gone.
  void lose_peer(message_peer& peer) noexcept;
  /// True if some lane has committed bytes that were not sent.
  [[nodiscard]] bool has_unsent() noexcept;

  [[nodiscard]] const message_site& site() const noexcept { return site_; }
  /// Returns this process's random key, which no other process can guess. Peers must put it into
  /// all messages to this process.
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
  /// Guards the table of lanes that users have. Taken after the link's lock if both are needed.
  mutable std::mutex table_mutex_;
  std::uint64_t next_id_ = 2;
  std::map<std::uint64_t, message_lane*> lanes_;
  std::deque<endpoint> waiting_;
  std::atomic<std::uint32_t> arrivals_{0};
  // The link's lock guards all members below.
  std::vector<endpoint> early_; ///< lanes from nodes that are not admitted yet
  std::vector<node_id> to_connect_;
  /// lanes without a user whose last message is still in flight
  std::vector<std::unique_ptr<message_lane>> retired_;
  /// lost lanes, each with the time at which its user is told of the loss
  std::vector<std::pair<time_point, message_lane*>> lost_;
  log::limited_log refusals_;
};

} // namespace farcall
