// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floor.hpp"

#include <farcall/am/message.hpp>

namespace farcall::tool {

/// Bytes of an empty call's records, headers included: the request has no arguments, the reply no
/// result.
inline constexpr std::uint32_t empty_request_bytes = am::request_body;
inline constexpr std::uint32_t empty_reply_bytes = am::reply_body;

/// Measures the records of an empty call without the call: the round trip of a request and a reply
/// through the library's rings between two processes, with doorbells that are never armed. Each
/// side reserves, fills in the header, commits, peeks and releases; there is no packing, lookup or
/// handler. The rest of an empty call's time is the engine and the typed call.
///
/// The constructor forks, so create it before any thread or job is started.
class ring_only final : public floor_probe {
 public:
  ring_only(core_pair cores, std::size_t batches, std::size_t calls);
  ~ring_only() override;
  ring_only(const ring_only&) = delete;
  ring_only& operator=(const ring_only&) = delete;
  ring_only(ring_only&&) = delete;
  ring_only& operator=(ring_only&&) = delete;

  [[nodiscard]] const char* what() const override { return "records of an empty call, no engine"; }

 private:
  std::vector<double> take_samples() override;

  struct process;
  std::size_t batches_;
  std::size_t calls_;
  std::unique_ptr<process> echo_;
};

} // namespace farcall::tool
