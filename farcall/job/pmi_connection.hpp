// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/unique_fd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace farcall {

/// A line of the protocol PMI 1. It consists of words of the form "name=value" with spaces between
/// them. The first word is the command.
class pmi_line {
 public:
  /// Makes a line from `text`, which does not include the line's end.
  explicit pmi_line(std::string text) : text_(std::move(text)) {}

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  /// Returns the value of the first word that has this name. The value may contain '='.
  [[nodiscard]] std::optional<std::string_view> word(std::string_view name) const noexcept;
  /// Returns the value of the first word that has this name, as a whole number. Returns an empty
  /// optional if the value is no number in [low, high].
  [[nodiscard]] std::optional<std::uint64_t> number(std::string_view name, std::uint64_t low,
                                                    std::uint64_t high) const noexcept;
  /// Returns false if the line contains an rc (return code) other than 0.
  [[nodiscard]] bool is_success() const noexcept;

 private:
  std::string text_;
};

/// Parses a whole number in decimal digits. Returns an empty optional if `text` contains anything
/// else, or if the number is not in [low, high].
[[nodiscard]] std::optional<std::uint64_t> pmi_number(std::string_view text, std::uint64_t low,
                                                      std::uint64_t high) noexcept;

/// Connection to the process manager. Sends requests and receives replies, each as one line. Checks
/// of a received line only its length. After malformed input or a timeout, every request fails,
/// because it would be unclear to which request a later line replies. One thread at a time may use
/// it.
class pmi_connection {
 public:
  /// Takes over a stream socket, which may be blocking or non-blocking. Its mode is not changed.
  explicit pmi_connection(unique_fd socket);

  /// Sends the request `line` and a line end. Returns the reply, a line that begins with "cmd=" and
  /// the name `reply`. Throws timeout, and error.
  [[nodiscard]] pmi_line ask(const std::string& line, std::string_view reply, time_point deadline);
  /// Returns the next line from the process manager. Throws timeout, and error.
  [[nodiscard]] pmi_line receive(time_point deadline);
  /// Sends `line`, but only if the socket accepts it without waiting. Expects no reply.
  void tell(const std::string& line) noexcept;
  /// Sends "cmd=finalize", and waits at most two seconds for the reply.
  void finish() noexcept;

  /// Returns the line in quotes, for error messages. A long line is shortened. All that follows "
  /// value=" is left out, because it may be secret. Each byte that is not printable ASCII becomes
  /// '?'.
  [[nodiscard]] static std::string quoted(std::string_view line);

 private:
  void send(std::string_view bytes, time_point deadline);
  /// Waits until the socket has the event. Returns false if the deadline has passed.
  [[nodiscard]] bool wait_for(short event, time_point deadline);
  [[noreturn]] void fail(const std::string& how);

  unique_fd socket_;
  std::string received_; ///< bytes not parsed yet
  std::string asked_;    ///< last request, for messages
  /// Reason why all further requests fail; empty while requests are possible.
  std::string broken_;
};

} // namespace farcall
