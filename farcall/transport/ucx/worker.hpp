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

/// What UCX says about a status.
[[nodiscard]] std::string text_of(ucs_status_t status);

/// The transports and devices that UCX may use here, as "tcp/eth0".
struct resources {
  std::vector<std::string> all;
  /// One of them leads to other machines.
  [[nodiscard]] bool has_network() const;
  /// One of them can tell that a peer has died.
  [[nodiscard]] bool notice_failures() const;
  /// The transports: "tcp, posix".
  [[nodiscard]] std::string transports() const;
};

/// Of a context that is made for the purpose. Throws error, which says why UCX cannot be used.
[[nodiscard]] resources find_resources();

/// Of the library: "1.13.1".
[[nodiscard]] std::string library_version();

class worker;

/// A node, and one end of a connection to it, which is made on first use.
struct connection : message_peer {
  worker* self = nullptr;
  ucp_ep_h ep = nullptr;
  bool handles_errors = false; ///< UCX tells us when the peer is gone
};

/// A process's UCP context and worker, their lock, and what wakes a thread that sleeps. A lock of
/// our own, because whoever polls must not wait for another who does, which UCX's
/// (UCS_THREAD_MODE_MULTI) makes him do; it costs the same.
class worker final : public message_link, private fork_observer {
 public:
  /// Who gets what has arrived. Everything with the lock.
  class receiver {
   public:
    /// A message, from within UCX: must not call UCX, except to name the place of data. Returns
    /// what the callback of an active message returns.
    virtual ucs_status_t on_message(std::uint16_t kind, std::span<const std::byte> header,
                                    void* data, std::size_t bytes, bool is_rendezvous) noexcept = 0;
    /// UCX can be called again, after messages and completions.
    virtual void after_progress() noexcept = 0;

   protected:
    ~receiver() = default;
  };

  /// Throws error, which says why UCX cannot be used.
  explicit worker(receiver& to);
  ~worker() override;

  /// Closes everything, so that UCX refers to nothing of its user's any more. What was sent gets
  /// there, unless that takes too long.
  void stop() noexcept;

  [[nodiscard]] std::span<const std::byte> address() const noexcept { return address_; }
  [[nodiscard]] const resources& own_resources() const noexcept { return resources_; }
  [[nodiscard]] bool is_forked() const noexcept { return is_forked_; }
  [[nodiscard]] int wait_fd() const noexcept { return wake_up_->fd(); }

  // ---- with the lock, which guards everything of UCX's, and the lanes

  [[nodiscard]] ucp_worker_h handle() const noexcept { return worker_; }

  /// Makes the endpoint of `to`. Throws error.
  void connect(connection& to, std::span<const std::byte> address);
  /// Gives it up at once. What is under way ends with an error, where UCX handles errors.
  void cut(connection& to) noexcept;

  outcome send(message_lane& from, const lane_header& header,
               std::span<const std::byte> bytes) noexcept override;
  using message_link::post;
  bool post(message_peer& to, lane_message kind,
            std::span<const std::byte> header) noexcept override;

  /// UCX has begun, or ended, a message that was not sent at once. Until it has, somebody looks,
  /// where UCX has no event for space at the peer: in shared memory.
  void begin_request() noexcept {
    ++requests_;
    if (!resources_.notice_failures()) look_again();
  }
  void end_request(void* request) noexcept {
    --requests_;
    ::ucp_request_free(request);
  }

  unsigned poll() noexcept override {
    ++polls_;
    return progress();
  }
  /// The same, for the thread that waits for wait_fd(). Returns how much there was.
  unsigned progress() noexcept;

  /// Connections whose peers are gone, as UCX says; each once.
  [[nodiscard]] std::vector<connection*> take_failures() noexcept {
    return std::exchange(failures_, {});
  }
  [[nodiscard]] bool has_failures() const noexcept { return !failures_.empty(); }

  // ---- without it

  void arm() noexcept override;
  void look_again() noexcept override;
  /// wait_fd() is readable. Calls `sweep` with the lock, after progress.
  template <class Sweep>
  void on_wake_up(Sweep sweep) noexcept {
    if (is_forked_) return;
    // Relaxed: who takes us for armed meanwhile has us look for him, below.
    if (wake_up_->take().event) is_armed_.store(false, std::memory_order_relaxed);
    const std::unique_lock guard(mutex(), std::try_to_lock);
    if (!guard) {
      look_again();
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
  std::unordered_set<connection*> connections_; ///< with an endpoint
  std::unordered_set<pending_header*> pending_;
  std::vector<connection*> failures_;
  std::vector<void*> closing_; ///< requests of endpoints that were cut
  std::unique_ptr<wake_up> wake_up_;
  std::size_t requests_ = 0; ///< under way
  std::chrono::nanoseconds busy_interval_{0};
  std::uint64_t polls_ = 0;
  std::uint64_t polls_seen_ = 0;      ///< by the progress thread
  std::atomic<bool> is_armed_{false}; ///< the next event is told
  bool is_forked_ = false;
};

} // namespace farcall::ucx
