// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/fork.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/message_lane.hpp>
#include <farcall/transport/message_link.hpp>
#include <farcall/transport/ucx/messages.hpp>
#include <farcall/transport/ucx/wake_up.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ucp/api/ucp.h>

namespace farcall::ucx {

/// Returns UCX's text for a status code.
[[nodiscard]] std::string text_of(ucs_status_t status);

/// Names of the transports and devices that UCX may use in this process, such as "tcp/eth0".
struct resources {
  std::vector<std::string> all;
  /// True if one of the resources leads to other machines.
  [[nodiscard]] bool has_network() const;
  /// True if one of the resources can detect that a peer has died.
  [[nodiscard]] bool notice_failures() const;
  /// Returns the names of the transports without devices, for example "tcp, posix".
  [[nodiscard]] std::string transports() const;
};

/// Returns the resources of a temporary UCX context. Throws error, which says why UCX cannot be
/// used.
[[nodiscard]] resources find_resources();

/// Returns the library's version: "1.13.1".
[[nodiscard]] std::string library_version();

class worker;

/// A node, and this process's endpoint for that node. The endpoint is made when it is used for the
/// first time.
struct connection : message_peer {
  worker* self = nullptr;
  ucp_ep_h ep = nullptr;
  bool handles_errors = false; ///< true if UCX reports when the peer is gone
};

/// UCP context and worker of a process, with the lock that guards them, and with the descriptor
/// that wakes a sleeping thread. UCX's own lock (UCS_THREAD_MODE_MULTI) is not used, because with
/// it a thread that polls would wait for another thread that polls. The worker's lock costs the
/// same, and a poll only tries to take it.
class worker final : public message_link, private fork_observer {
 public:
  /// Interface for the receiver of messages. Its members are called with the lock held.
  class receiver {
   public:
    /// Handles a message. UCX calls this function, which therefore must not call UCX, except to
    /// receive the message's data. Returns the result of UCX's callback for active messages.
    virtual ucs_status_t on_message(std::uint16_t kind, std::span<const std::byte> header,
                                    void* data, std::size_t bytes, bool is_rendezvous) noexcept = 0;
    /// Called after messages were received or operations have completed. This function may call
    /// UCX.
    virtual void after_progress() noexcept = 0;

   protected:
    ~receiver() = default;
  };

  /// Makes the context and the worker. Throws error, which says why UCX cannot be used.
  explicit worker(receiver& to);
  ~worker() override;

  /// Closes all endpoints, after which UCX refers to no memory of the endpoints' users. Messages
  /// that were sent before are delivered, unless that takes too long.
  void stop() noexcept;

  [[nodiscard]] std::span<const std::byte> address() const noexcept { return address_; }
  [[nodiscard]] const resources& own_resources() const noexcept { return resources_; }
  [[nodiscard]] bool is_forked() const noexcept { return is_forked_; }
  [[nodiscard]] int wait_fd() const noexcept { return wake_up_->fd(); }

  // ---- called with the lock, which guards UCX's objects and the lanes

  [[nodiscard]] ucp_worker_h handle() const noexcept { return worker_; }

  /// Makes the endpoint of the connection `to`. Throws error.
  void connect(connection& to, std::span<const std::byte> address);
  /// Gives up the connection's endpoint at once. If UCX handles errors for this endpoint, the
  /// endpoint's operations end with an error. Otherwise the endpoint stays open until the worker
  /// ends.
  void cut(connection& to) noexcept;

  outcome send(message_lane& from, const lane_header& header,
               std::span<const std::byte> bytes) noexcept override;
  using message_link::post;
  bool post(message_peer& to, lane_message kind,
            std::span<const std::byte> header) noexcept override;

  /// Called when UCX has begun an operation that did not complete at once. When the operation has
  /// completed, end_request() is called. Over shared memory, no event says that the peer has space
  /// for messages again. Therefore the event loop polls until the operation has completed.
  void begin_request() noexcept {
    ++requests_;
    if (!resources_.notice_failures()) poll_again();
  }
  void end_request(void* request) noexcept {
    --requests_;
    ::ucp_request_free(request);
  }

  unsigned poll() noexcept override {
    ++polls_;
    return progress();
  }
  /// Works like poll(), but does not count as a poll of a user. The event loop calls it, for
  /// instance. Returns the number of events.
  unsigned progress() noexcept;

  /// Returns the connections whose peers are gone, according to UCX. Each connection is returned
  /// once.
  [[nodiscard]] std::vector<connection*> take_failures() noexcept {
    return std::exchange(failures_, {});
  }
  [[nodiscard]] bool has_failures() const noexcept { return !failures_.empty(); }

  // ---- without the lock

  void arm() noexcept override;
  void poll_again() noexcept override;
  /// Called by the event loop when wait_fd() is readable. Makes progress, and calls `sweep` with
  /// the lock held.
  template <class Sweep>
  void on_wake_up(Sweep sweep) noexcept {
    if (is_forked_) return;
    // Relaxed is enough. A thread that still sees the worker as armed does not arm it, but the
    // polls below find the messages that have arrived for that thread.
    if (wake_up_->take().event) is_armed_.store(false, std::memory_order_relaxed);
    const std::unique_lock guard(mutex(), std::try_to_lock);
    if (!guard) {
      poll_again();
      return;
    }
    progress();
    sweep();
    watch();
  }

 private:
  struct handler {
    worker* self = nullptr;
    std::uint16_t kind = 0;
  };
  struct pending_header;

  static ucs_status_t on_message(void* argument, const void* header, std::size_t header_bytes,
                                 void* data, std::size_t bytes,
                                 const ucp_am_recv_param_t* param) noexcept;
  static void on_error(void* argument, ucp_ep_h ep, ucs_status_t status) noexcept;
  static void on_sent(void* request, ucs_status_t status, void* header) noexcept;
  static void on_lane_sent(void* request, ucs_status_t status, void* lane) noexcept;

  void make_worker();
  void destroy() noexcept;
  void close_endpoints() noexcept;
  [[nodiscard]] bool wait_for(std::vector<void*>& requests) noexcept;
  void watch() noexcept;
  void arm_locked() noexcept;
  void after_fork_in_child() noexcept override { is_forked_ = true; }

  receiver* to_;
  resources resources_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::vector<std::byte> address_;
  std::vector<handler> handlers_;
  std::unordered_set<connection*> connections_; ///< connections with an endpoint
  std::unordered_set<pending_header*> pending_;
  std::vector<connection*> failures_;
  std::vector<void*> closing_; ///< requests that close the endpoints of connections that were cut
  std::unique_ptr<wake_up> wake_up_;
  std::size_t requests_ = 0; ///< requests in progress
  std::chrono::nanoseconds busy_interval_{0};
  std::uint64_t polls_ = 0;
  std::uint64_t polls_seen_ = 0; ///< value of polls_ when the event loop last read it
  /// True if UCX's descriptor is armed, so that the next event makes wait_fd() readable.
  std::atomic<bool> is_armed_{false};
  bool is_forked_ = false;
};

} // namespace farcall::ucx
