// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/event_loop.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/refusals.hpp>
#include <farcall/transport/tcp/unproved_peers.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace farcall::tcp {

/// Accepts connections and reads the preamble of each; its owner decides what happens to the
/// connection. Any thread may call start(), stop() and addresses(). All else runs on the loop's
/// thread.
class acceptor : public std::enable_shared_from_this<acceptor> {
 public:
  /// Function that takes over a connection whose preamble is valid, and from which no byte after
  /// the preamble has been read. `from` is the peer's address for messages. If the function throws,
  /// the connection is refused, with the exception's text as the reason; connection_refused also
  /// names the kind of reason.
  using taker =
      std::function<void(unique_fd socket, const preamble& first, const std::string& from)>;

  /// Function that is called on the loop's thread for each refused connection.
  using refusal_handler =
      std::function<void(const std::string& from, refusal_cause cause, const std::string& why)>;

  /// A connection that has not sent its preamble within `handshake_timeout` is refused.
  acceptor(event_loop& loop, std::vector<unique_fd> listeners,
           std::chrono::milliseconds handshake_timeout);

  /// Limit of the number of connections that have not sent a preamble yet. Servers apply the same
  /// limit to connections whose client has not proved yet that it may connect. The limit bounds the
  /// cost of such connections. A client that sends the preamble and the proof at once is still
  /// served, because its connection counts only for a moment. The limit is lower if the process may
  /// open only few descriptors; see unproved_limit().
  static constexpr std::size_t max_unproved = 128;

  /// Addresses on which the acceptor listens.
  [[nodiscard]] const std::vector<address>& addresses() const noexcept { return addresses_; }

  /// Begins to accept connections. Called once. Without `refused`, refusals are logged at a limited
  /// rate.
  void start(taker takes, refusal_handler refused = {});
  /// Stops accepting connections. The loop's thread may still call `takes` for a connection that
  /// was accepted before, until that thread has run a task that this function posts.
  void stop() noexcept;

  /// Reports a refused connection. Called on the loop's thread.
  void refuse(const std::string& from, refusal_cause cause, const std::string& why);

  /// Number of connections accepted so far, and number of those whose preamble is not complete yet.
  /// Called on the loop's thread.
  [[nodiscard]] std::uint64_t accepted() const noexcept { return visitors_.added(); }
  [[nodiscard]] std::size_t unproved() const noexcept { return visitors_.size(); }

 private:
  /// A connection whose preamble is not complete yet.
  struct visitor {
    unique_fd socket;
    std::string from;
    preamble first;
    std::size_t have = 0;
  };

  void let_in(int listener);
  void add(unique_fd socket);
  void receive(std::uint64_t number);
  void send_away(std::uint64_t number, refusal_cause cause, const std::string& why);
  std::optional<visitor> take_out(std::uint64_t number);

  event_loop* loop_;
  std::vector<unique_fd> listeners_;
  std::vector<address> addresses_;
  std::chrono::milliseconds handshake_timeout_;
  taker takes_;
  refusal_handler refused_;
  unproved_peers<visitor> visitors_{unproved_limit(max_unproved)};
  log::limited_log refusals_{"more connections were refused"};
};

/// Sends the server's admission, which tells the client of a control connection whether the server
/// accepts the connection.
void reply(int socket, admission word) noexcept;

} // namespace farcall::tcp
