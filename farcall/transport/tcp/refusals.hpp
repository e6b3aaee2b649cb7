// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace farcall::tcp {

/// Kinds of reasons for refusing a connection. Servers count refusals by kind, and programs that
/// read logs can tell the kinds apart.
enum class refusal_cause : std::uint8_t {
  protocol,       ///< the connection does not begin as one of farcall, or has another version
  ended,          ///< the connection ended or broke before its request was complete
  timeout,        ///< the connection's request did not arrive in time
  displaced,      ///< too many other connections have displaced this one
  key,            ///< the client has no key although one is needed, or has a key although none is
                  ///< needed
  authentication, ///< the client has not proved that it may connect
  full,           ///< the limit of targets, or of a client's connections, is reached
  draining,       ///< the server no longer starts new targets
  unknown_node,   ///< the connection is for a node that does not exist here
  request,        ///< asks for something impossible
};
inline constexpr std::size_t refusal_causes = static_cast<std::size_t>(refusal_cause::request) + 1;

/// Words for the causes, one for each, as logs and metrics show them.
inline constexpr std::array<std::string_view, refusal_causes> refusal_cause_names{
    "protocol",       "ended", "timeout",  "displaced",    "key",
    "authentication", "full",  "draining", "unknown_node", "request"};

/// Thrown by the function that decides about a connection, in order to refuse the connection.
class connection_refused : public error {
 public:
  connection_refused(refusal_cause cause, const std::string& why) : error(why), cause_(cause) {}
  [[nodiscard]] refusal_cause cause() const noexcept { return cause_; }

 private:
  refusal_cause cause_;
};

} // namespace farcall::tcp
