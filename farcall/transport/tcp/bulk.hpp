// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/event_loop.hpp>
#include <farcall/base/node_table.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/rma_engine.hpp>
#include <farcall/transport/tcp/checked_end.hpp>
#include <farcall/transport/tcp/connection_ends.hpp>
#include <farcall/transport/tcp/delivery_checks.hpp>
#include <farcall/transport/tcp/stream.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

/// Bulk copies between two nodes. Each copy has its own connection, so that messages never wait
/// behind it.
namespace farcall::tcp {

enum class bulk_operation : std::uint32_t {
  put = 1, ///< writes bytes at `address`; the bytes follow the request
  get = 2, ///< reads bytes from `address`; the bytes follow the reply
};
struct bulk_request {
  bulk_operation operation{};
  std::uint32_t reserved = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(bulk_request) == 24);
/// Reply to a bulk request: sent after the bytes of a put were written, or before the bytes of a
/// get.
struct bulk_reply {
  std::uint64_t bytes = 0; ///< as in the request
};

/// Limits for a thread that moves bulk bytes, so that threads that handle messages get CPU time
/// even if they share its CPU.
struct bulk_pace {
  std::uint64_t slice = 0;       ///< limit of the bytes that one call of the stream moves
  std::uint64_t yield_every = 0; ///< number of bytes moved between two calls of sched_yield()
};
[[nodiscard]] bulk_pace pace_of(const stream& connection) noexcept;

/// The requester's end of a connection for copies. One thread at a time copies over the connection.
/// Other threads may end the connection and read its position.
class bulk_connection final : public checked_end {
 public:
  /// The bytes of `first` are sent before the first request.
  bulk_connection(std::unique_ptr<stream> connection, std::span<const std::byte> first,
                  std::uint64_t serial)
      : stream_(std::move(connection)), first_(first.begin(), first.end()), serial_(serial) {}

  [[nodiscard]] std::uint64_t serial() const noexcept { return serial_; }
  /// Makes all reads and writes of the connection fail, and discards the bytes that were not sent.
  void abort() noexcept;
  /// True if a delivery check, at this end or at the peer, has found that sent bytes do not arrive.
  [[nodiscard]] bool is_swallowed() const noexcept { return is_swallowed_.load(); }

  // ---- for the copying thread
  [[nodiscard]] stream& bytes() noexcept { return *stream_; }
  /// Returns the bytes that must be sent before the first request. Returns none from the second
  /// call on.
  [[nodiscard]] iovec take_first() noexcept;
  void note(bool is_read, std::size_t bytes) noexcept {
    (is_read ? received_ : sent_).fetch_add(bytes, std::memory_order_relaxed);
  }

  // ---- for the loop's thread
  [[nodiscard]] bool is_open() const noexcept override { return !has_ended_.load(); }
  [[nodiscard]] stream_position position() noexcept override;
  void end_connection() noexcept override;

 private:
  std::unique_ptr<stream> stream_;
  std::vector<std::byte> first_;
  bool is_first_taken_ = false;
  std::uint64_t serial_;
  std::atomic<std::uint64_t> sent_{0}; ///< including `first`
  std::atomic<std::uint64_t> received_{0};
  std::atomic<bool> has_ended_{false};
  std::atomic<bool> is_swallowed_{false};
};

/// The requester's side of bulk copies. The work is done by the threads that call put and get.
class bulk_rma_engine final : public rma_engine {
 public:
  /// Function that asks for one more connection to `peer`. The outcome is passed to add() or
  /// fail().
  using connector = std::function<void(node_id peer, std::uint64_t serial)>;
  /// Function that is called after a put over the connection with this serial number was given up.
  /// It makes the peer refuse the remaining bytes of that put, and then calls release(). It must
  /// not block.
  using ender = std::function<void(node_id peer, std::uint64_t serial)>;

  bulk_rma_engine(std::size_t nodes, connector connect, ender end);
  ~bulk_rma_engine() override;

  /// Sets the parts of the memory of `peer` that may be copied.
  void admit(node_id peer, const std::vector<memory_window>& windows);
  /// Adds a connection, on which the bytes of `first` are sent before the first request.
  void add(node_id peer, std::unique_ptr<stream> connection, std::span<const std::byte> first,
           std::uint64_t serial);
  /// Called when the peer has confirmed that it refuses all further bytes of the connection with
  /// this serial number. Copies with the peer wait until this has happened for each put that was
  /// given up.
  void release(node_id peer, std::uint64_t serial) noexcept;
  void fail(node_id peer, const std::string& why);
  /// Returns how many connections to `peer` were requested so far. A caller that limits the wait
  /// for a connection passes this number to fail_late(). fail_late() fails one request unless at
  /// least that many requests have succeeded or failed.
  [[nodiscard]] std::uint64_t asked(node_id peer);
  void fail_late(node_id peer, std::uint64_t asked, const std::string& why);
  /// Returns all connections.
  [[nodiscard]] std::vector<checked_connection> connections();
  /// Fails all copies with the peer, present and future.
  void forget(node_id peer) noexcept;

  [[nodiscard]] std::uint64_t threshold() const noexcept override;
  [[nodiscard]] bool put(node_id peer, std::uint64_t to, const std::byte* from, std::uint64_t bytes,
                         time_point deadline) noexcept override;
  [[nodiscard]] bool get(node_id peer, std::uint64_t from, std::byte* to, std::uint64_t bytes,
                         time_point deadline) noexcept override;
  [[nodiscard]] bool settle(node_id peer, time_point deadline) noexcept override;
  [[nodiscard]] std::string failure(node_id peer, std::uint64_t address,
                                    std::uint64_t bytes) override;
  /// Ends the waits for bytes of earlier puts to a peer that has failed.
  void note_failure(node_id peer) noexcept;

 private:
  struct peer_state {
    std::vector<memory_window> windows;
    std::vector<std::shared_ptr<bulk_connection>> idle;
    std::vector<std::shared_ptr<bulk_connection>> busy;
    std::vector<std::uint64_t> leaving; ///< serial numbers of the connections of puts that were
                                        ///< given up, whose bytes the peer may still read
    /// number of requested connections that were neither made nor reported as failed yet
    unsigned awaited = 0;
    unsigned waiting = 0;      ///< number of copies that wait for a connection
    std::uint64_t asked = 0;   ///< serial number of the last request for a connection
    std::uint64_t settled = 0; ///< number of requests for a connection that have succeeded
                               ///< or failed
    bool has_failed = false;   ///< the peer confirms nothing any more
    bool is_gone = false;
    std::string why; ///< reason why a requested connection was not made; the next copy reports it
    std::string failure; ///< reason why the last copy failed
  };
  class loan;

  /// Lends a connection to `exchange`, which makes the copy. If `exchange` fails on a connection
  /// that an earlier copy has left idle, the function calls `exchange` again with another
  /// connection.
  template <class Exchange>
  [[nodiscard]] bool copy(node_id peer, time_point deadline, Exchange exchange) noexcept;
  /// Waits until the peer refuses the remaining bytes of all puts to it that were given up. Returns
  /// false if the deadline passes first.
  [[nodiscard]] bool wait_for_leaving(std::unique_lock<std::mutex>& guard, peer_state& p,
                                      time_point deadline);
  /// Waits until the state of some peer changes. Returns false if the deadline passes first.
  [[nodiscard]] bool wait_for_change(std::unique_lock<std::mutex>& guard, time_point deadline);
  [[nodiscard]] bool is_inside(node_id peer, std::uint64_t address, std::uint64_t bytes);

  std::mutex mutex_;
  std::condition_variable changed_;
  node_table<peer_state> peers_; ///< admitted peers
  connector connect_;
  ender end_;
};

/// Serving end of a connection for copies.
class bulk_service : public revocable, public checked_end {
 protected:
  ~bulk_service() = default;
};

/// Serves one connection for copies on the loop's thread, until the connection ends or is revoked.
/// `windows` is the memory of this process that may be copied. The bytes of `first` are sent before
/// all others.
std::shared_ptr<bulk_service> serve_bulk(event_loop& loop, std::unique_ptr<stream> connection,
                                         std::vector<memory_window> windows,
                                         std::span<const std::byte> first);

/// True if [address, address + bytes) is inside one of the windows.
[[nodiscard]] bool is_in_window(const std::vector<memory_window>& windows, std::uint64_t address,
                                std::uint64_t bytes) noexcept;

} // namespace farcall::tcp
