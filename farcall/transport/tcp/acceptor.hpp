#pragma once

#include <farcall/base/limited_log.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/handshake.hpp>
#include <farcall/transport/tcp/reactor.hpp>
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

/// Takes in connections and reads what each says first, its preamble; whoever made the acceptor
/// decides about the rest. Everything but start() and stop() happens on the reactor's thread.
class acceptor : public std::enable_shared_from_this<acceptor> {
 public:
  /// A connection with a preamble that has no flaw, of which not a byte more was read. `from` is
  /// for people. What it throws is why the connection was refused; connection_refused says of what
  /// kind that is.
  using taker =
      std::function<void(unique_fd socket, const preamble& first, const std::string& from)>;

  /// Is told of a connection that was refused, on the reactor's thread.
  using refusal_handler =
      std::function<void(const std::string& from, refusal_cause cause, const std::string& why)>;

  /// Connections have `handshake_timeout` to say what they want.
  acceptor(reactor& loop, std::vector<unique_fd> listeners,
           std::chrono::milliseconds handshake_timeout);

  /// Connections that have not said, or not proved, what they want: together they may cost so much,
  /// and a peer is served that does so at once. Fewer where the process may have few descriptors;
  /// see unproved_limit().
  static constexpr std::size_t most_unproved = 128;

  /// Where it listens.
  [[nodiscard]] const std::vector<address>& addresses() const noexcept { return addresses_; }

  /// Begins. Once. Without `refused` the log is told of refusals, not too often.
  void start(taker takes, refusal_handler refused = {});
  /// Takes in no more. `takes` is not called any more once the reactor's thread has passed by.
  void stop() noexcept;

  /// Tells that a connection was refused. On the reactor's thread.
  void refuse(const std::string& from, refusal_cause cause, const std::string& why);

  /// Connections that have come so far, and those among them that have not said yet what they want.
  /// On the reactor's thread.
  [[nodiscard]] std::uint64_t accepted() const noexcept { return visitors_.added(); }
  [[nodiscard]] std::size_t unproved() const noexcept { return visitors_.size(); }

 private:
  /// A connection that has not said yet what it wants.
  struct visitor {
    unique_fd socket;
    std::string from;
    preamble first;
    std::size_t have = 0;
  };

  void let_in(int listener);
  void add(unique_fd socket);
  void hear(std::uint64_t number);
  void send_away(std::uint64_t number, refusal_cause cause, const std::string& why);
  std::optional<visitor> let_go(std::uint64_t number);

  reactor* loop_;
  std::vector<unique_fd> listeners_;
  std::vector<address> addresses_;
  std::chrono::milliseconds handshake_timeout_;
  taker takes_;
  refusal_handler refused_;
  unproved_peers<visitor> visitors_{unproved_limit(most_unproved)};
  log::limited_log refusals_{"more connections were refused"};
};

/// Tells the other side of a connection for control whether it may come in.
void reply(int socket, admission word) noexcept;

} // namespace farcall::tcp
