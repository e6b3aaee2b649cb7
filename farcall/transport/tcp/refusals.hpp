#pragma once

#include <farcall/base/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace farcall::tcp {

/// Why a connection was refused, in kinds: for counts, and for programs that read logs.
enum class refusal_cause : std::uint8_t {
  protocol,       ///< it does not begin as a connection of farcall, or of this version, does
  ended,          ///< it ended, or broke, before it said what it wants
  timeout,        ///< it did not say in time what it wants
  displaced,      ///< too many others have come
  key,            ///< it came without a key and one is needed, or the other way round
  authentication, ///< it has not proved that it may come in
  full,           ///< there are as many targets, or connections of a client, as there may be
  draining,       ///< no new targets are taken
  unknown_node,   ///< it asks for a node that is not here
  request,        ///< it asks for what cannot be
};
inline constexpr std::size_t refusal_causes = static_cast<std::size_t>(refusal_cause::request) + 1;

/// One word for each, which logs and metrics show.
inline constexpr std::array<std::string_view, refusal_causes> refusal_cause_names{
    "protocol",       "ended", "timeout",  "displaced",    "key",
    "authentication", "full",  "draining", "unknown_node", "request"};

/// What whoever decides about a connection throws to refuse it.
class connection_refused : public error {
 public:
  connection_refused(refusal_cause cause, const std::string& why) : error(why), cause_(cause) {}
  [[nodiscard]] refusal_cause cause() const noexcept { return cause_; }

 private:
  refusal_cause cause_;
};

} // namespace farcall::tcp
