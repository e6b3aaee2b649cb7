#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/tcp/address.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace farcall::tcp {

/// Connecting to whichever of some addresses replies first, in the manner of happy eyeballs (RFC
/// 8305): the next is tried when all so far have failed, or have been silent for a moment, and
/// those stay in the race. Whoever has this waits: for sockets(), which become writable when they
/// are decided, and for next_start(). A connection that was taken stays in the race, too, until it
/// is given up or the race is over.
class connect_attempts {
 public:
  /// Addresses in the order in which they are tried.
  explicit connect_attempts(std::vector<socket_address> where) : where_(std::move(where)) {}

  /// Begins what is due; the sockets that are new.
  std::vector<int> start_due(time_point now);
  /// When start_due() has more to do; no_deadline: no address is left.
  [[nodiscard]] time_point next_start() const noexcept;
  /// Those under way.
  [[nodiscard]] std::vector<int> sockets() const;

  /// Whether one of sockets() is connected: 0, the reason why it is not, or EINPROGRESS.
  [[nodiscard]] static int outcome_of(int socket) noexcept;
  /// The connection, one of sockets() no more.
  [[nodiscard]] unique_fd take(int socket) noexcept;
  /// It was not made; closes the socket.
  void fail(int socket, int reason);
  /// A connection that was taken has come to nothing: a failure like the others'.
  void give_up_taken(const std::string& failure);

  /// No attempt is under way, nothing taken in the race, and no address left.
  [[nodiscard]] bool have_failed() const noexcept {
    return !is_any_open() && next_ == where_.size();
  }
  /// How many addresses there are.
  [[nodiscard]] std::size_t addresses() const noexcept { return where_.size(); }
  /// Too many wait at a listener, which is asked again.
  [[nodiscard]] bool is_listener_busy() const noexcept { return !busy_.empty(); }
  /// What became of each address, those that are silent included.
  [[nodiscard]] std::string failures() const;

 private:
  struct attempt {
    unique_fd socket;
    socket_address to;
  };
  [[nodiscard]] bool is_any_open() const noexcept { return !under_way_.empty() || taken_ != 0; }
  void note(const std::string& failure);

  std::vector<socket_address> where_;
  std::size_t next_ = 0;
  time_point silent_until_{}; ///< then the next one is tried though others are under way
  std::string busy_;          ///< the last listener that was, and is asked again
  time_point not_before_{};   ///< then it is
  std::vector<attempt> under_way_;
  std::size_t taken_ = 0; ///< and not given up
  std::string failures_;
};

} // namespace farcall::tcp
