// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/event_loop.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/acceptor.hpp>
#include <farcall/transport/tcp/handshake.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace farcall::tcp {

/// Accepts the connections of one job that are dialled to this process directly, rather than to a
/// server. Any thread may use it.
class own_listener {
 public:
  /// Listens on all addresses of this machine, with one free port. Throws error.
  own_listener(event_loop& loop, const job_name& job, std::chrono::milliseconds handshake_timeout);
  own_listener(const own_listener&) = delete;
  own_listener& operator=(const own_listener&) = delete;
  ~own_listener();

  /// Returns the addresses at which peers dial this process.
  [[nodiscard]] const std::vector<socket_address>& addresses() const noexcept { return addresses_; }

  /// Function that takes connections whose preamble was read: one function is for connections of
  /// joining processes, the other for connections of nodes. Called on the loop's thread. An empty
  /// function refuses such connections from now on. Setting a function waits for a running call of
  /// the earlier function, so that it must not be done on the loop's thread.
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
