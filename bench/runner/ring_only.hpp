#pragma once

#include "floor.hpp"

#include <farcall/am/message.hpp>

namespace farcall::tool {

/// Bytes of the records of an empty call, headers included: the request has no arguments, the reply
/// no result.
inline constexpr std::uint32_t empty_request_bytes = am::request_body;
inline constexpr std::uint32_t empty_reply_bytes = am::reply_body;

/// The records of an empty call without a call: the round trip of a request and a reply through the
/// library's rings between two processes, with doorbells that nobody has armed. Each side reserves,
/// fills in the header, commits, peeks and releases; nobody packs, looks up or runs anything. What
/// an empty call takes beyond this is the engine's and the typed call's.
///
/// The second process is forked by the constructor, so make it before any thread or job is started.
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
