// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/interfaces.hpp>
#include <farcall/transport/tcp/own_listener.hpp>

#include <utility>

namespace farcall::tcp {

own_listener::own_listener(event_loop& loop, const job_name& job,
                           std::chrono::milliseconds handshake_timeout)
    : acceptor_(std::make_shared<acceptor>(loop, listen_everywhere(), handshake_timeout)),
      addresses_(interface_addresses(acceptor_->addresses().front().port)) {
  acceptor_->start(
      [all = takers_, job](unique_fd socket, const preamble& first, const std::string& /*from*/) {
        if (first.job != job) throw error("it belongs to another job");
        // Hold the lock while the function is called, so that a thread that sets another function
        // waits for the end of the call.
        const std::lock_guard guard(all->mutex);
        const taker& takes = first.kind == connection_kind::join ? all->join : all->connection;
        if (!takes) throw error("nothing of its kind is expected");
        takes(std::move(socket));
      });
}

own_listener::~own_listener() {
  acceptor_->stop();
  on_join({});
  on_connection({});
}

void own_listener::set(taker takers::* which, taker takes) {
  const std::lock_guard guard(takers_->mutex);
  (*takers_).*which = std::move(takes);
}

} // namespace farcall::tcp
