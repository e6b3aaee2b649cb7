#pragma once

#include <farcall/base/node_table.hpp>
#include <farcall/transport/card.hpp>
#include <farcall/transport/rma_engine.hpp>
#include <farcall/transport/tcp/checked_end.hpp>
#include <farcall/transport/tcp/connection_ends.hpp>
#include <farcall/transport/tcp/delivery_checks.hpp>
#include <farcall/transport/tcp/reactor.hpp>
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

/// Bulk copies, each over a connection of its own, so that they never stand before messages.
namespace farcall::tcp {

enum class bulk_operation : std::uint32_t {
  put = 1, ///< `bytes` bytes follow, for `address`
  get = 2, ///< `bytes` bytes from `address` are to follow the reply
};
struct bulk_request {
  bulk_operation operation{};
  std::uint32_t reserved = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(bulk_request) == 24);
/// Sent when a put has been written, and before the bytes of a get.
struct bulk_reply {
  std::uint64_t bytes = 0; ///< as in the request
};

/// How bulk bytes are moved, so that threads with messages, which may have no processor of their
/// own, get one.
struct bulk_pace {
  std::uint64_t slice = 0;       ///< given to the stream in one go
  std::uint64_t yield_every = 0; ///< moved between two yields of the processor
};
[[nodiscard]] bulk_pace pace_of(const stream& connection) noexcept;

/// A connection of our side. One thread copies over it at a time; others may end it and look.
class bulk_connection final : public checked_end {
 public:
  /// `first` goes before the first request.
  bulk_connection(std::unique_ptr<stream> connection, std::span<const std::byte> first,
                  std::uint64_t serial)
      : stream_(std::move(connection)), first_(first.begin(), first.end()), serial_(serial) {}

  [[nodiscard]] std::uint64_t serial() const noexcept { return serial_; }
  /// Has reads and writes find the connection's end, and throws away what has not been sent.
  void abort() noexcept;
  /// True if the peer has said that what was sent does not arrive.
  [[nodiscard]] bool is_swallowed() const noexcept { return is_swallowed_.load(); }

  // ---- for who copies
  [[nodiscard]] stream& bytes() noexcept { return *stream_; }
  /// Part of a request: what goes before it, once.
  [[nodiscard]] iovec take_first() noexcept;
  void note(bool is_read, std::size_t bytes) noexcept {
    (is_read ? received_ : sent_).fetch_add(bytes, std::memory_order_relaxed);
  }

  // ---- for the reactor's thread
  [[nodiscard]] bool is_open() const noexcept override { return !has_ended_.load(); }
  [[nodiscard]] stream_position position() noexcept override;
  void end_connection() noexcept override;

 private:
  std::unique_ptr<stream> stream_;
  std::vector<std::byte> first_;
  bool is_first_taken_ = false;
  std::uint64_t serial_;
  std::atomic<std::uint64_t> sent_{0}; ///< `first` included
  std::atomic<std::uint64_t> received_{0};
  std::atomic<bool> has_ended_{false};
  std::atomic<bool> is_swallowed_{false};
};

/// Our side of copies that we ask for. The calling threads do the work.
class bulk_rma_engine final : public rma_engine {
 public:
  /// Asks for one more connection to `peer`, which comes to add(), or whose failure to fail().
  using connector = std::function<void(node_id peer, std::uint64_t serial)>;
  /// Has the peer refuse what comes over a connection with a put that was given up, and then calls
  /// release(). Must not block.
  using ender = std::function<void(node_id peer, std::uint64_t serial)>;

  bulk_rma_engine(std::size_t nodes, connector connect, ender end);
  ~bulk_rma_engine() override;

  /// What may be copied to and from there.
  void admit(node_id peer, const std::vector<memory_window>& windows);
  /// `first` goes before the first request.
  void add(node_id peer, std::unique_ptr<stream> connection, std::span<const std::byte> first,
           std::uint64_t serial);
  /// The peer refuses what may still come over that connection.
  void release(node_id peer, std::uint64_t serial) noexcept;
  void fail(node_id peer, const std::string& why);
  /// How many connections were asked for so far. Of the first that many, one that has not come by
  /// the time of fail_late() does not count as awaited any more.
  [[nodiscard]] std::uint64_t asked(node_id peer);
  void fail_late(node_id peer, std::uint64_t asked, const std::string& why);
  /// All that stand.
  [[nodiscard]] std::vector<checked_connection> connections();
  /// Copies with the peer end, now and from now on.
  void forget(node_id peer) noexcept;

  [[nodiscard]] std::uint64_t threshold() const noexcept override;
  [[nodiscard]] bool put(node_id peer, std::uint64_t to, const std::byte* from, std::uint64_t bytes,
                         time_point deadline) noexcept override;
  [[nodiscard]] bool get(node_id peer, std::uint64_t from, std::byte* to, std::uint64_t bytes,
                         time_point deadline) noexcept override;
  [[nodiscard]] bool settle(node_id peer, time_point deadline) noexcept override;
  [[nodiscard]] std::string failure(node_id peer, std::uint64_t address,
                                    std::uint64_t bytes) override;

 private:
  struct peer_state {
    std::vector<memory_window> windows;
    std::vector<std::shared_ptr<bulk_connection>> idle;
    std::vector<std::shared_ptr<bulk_connection>> busy;
    std::vector<std::uint64_t> leaving; ///< with puts that were given up; the peer may still read
    unsigned awaited = 0;               ///< connections that were asked for
    unsigned waiting = 0;               ///< copies that have none
    std::uint64_t asked = 0;            ///< the serial of the last one
    std::uint64_t settled = 0;          ///< of those asked for: came, or failed
    bool is_gone = false;
    std::string why;     ///< the last connection could not be made
    std::string failure; ///< of the last copy that failed
  };
  class loan;

  /// Has `exchange` ask and reply over a connection; again while it fails on ones that were left
  /// from before.
  template <class Exchange>
  [[nodiscard]] bool copy(node_id peer, time_point deadline, Exchange exchange) noexcept;
  /// Until the peer refuses what may still come of puts that were given up. False when the deadline
  /// passed.
  [[nodiscard]] bool wait_for_leaving(std::unique_lock<std::mutex>& guard, peer_state& p,
                                      time_point deadline);
  /// False when the deadline passed.
  [[nodiscard]] bool wait_for_change(std::unique_lock<std::mutex>& guard, time_point deadline);
  [[nodiscard]] bool is_inside(node_id peer, std::uint64_t address, std::uint64_t bytes);

  std::mutex mutex_;
  std::condition_variable changed_;
  node_table<peer_state> peers_; ///< of those that were admitted
  connector connect_;
  ender end_;
};

/// The other side of a connection.
class bulk_service : public revocable, public checked_end {
 protected:
  ~bulk_service() = default;
};

/// The other side: serves one connection on the reactor's thread, until it ends or is revoked.
/// `windows` is the memory that may be copied, in this process; `first` is sent before anything
/// else.
std::shared_ptr<bulk_service> serve_bulk(reactor& loop, std::unique_ptr<stream> connection,
                                         std::vector<memory_window> windows,
                                         std::span<const std::byte> first);

/// True when [address, address + bytes) lies in one of the windows.
[[nodiscard]] bool is_in_window(const std::vector<memory_window>& windows, std::uint64_t address,
                                std::uint64_t bytes) noexcept;

} // namespace farcall::tcp
