#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/acceptor.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/reactor.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace farcall::tcp {

/// Takes in what is dialled at this process itself, which no server does for it: the connections of
/// one job. Any thread.
class own_listener {
 public:
  /// Listens on one free port of all addresses. Throws error.
  own_listener(reactor& loop, const job_name& job, std::chrono::milliseconds handshake_timeout);
  own_listener(const own_listener&) = delete;
  own_listener& operator=(const own_listener&) = delete;
  ~own_listener();

  /// Where others dial.
  [[nodiscard]] const std::vector<socket_address>& addresses() const noexcept { return addresses_; }

  /// Has `takes` called, on the reactor's thread, with connections whose preamble was read: of
  /// processes that want to join, or of nodes. None: those are refused from now on, and no call of
  /// the one before runs any more. Not on the reactor's thread.
  using taker = std::function<void(unique_fd socket)>;
  void on_join(taker takes) { set(&takers::join, std::move(takes)); }
  void on_connection(taker takes) { set(&takers::connection, std::move(takes)); }

 private:
  struct takers {
    std::mutex mutex;
    taker join;
    taker connection;
  };
  void set(taker takers::* which, taker takes);

  std::shared_ptr<takers> takers_ = std::make_shared<takers>();
  std::shared_ptr<acceptor> acceptor_;
  std::vector<socket_address> addresses_;
};

} // namespace farcall::tcp
