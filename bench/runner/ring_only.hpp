// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "floor.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace farcall::tool {

/// Records of one kind of call.
struct call_records {
  std::uint32_t argument_bytes = 0; ///< packed
  std::uint32_t result_bytes = 0;   ///< packed
  std::size_t window = 1;           ///< calls under way at a time
};

/// Measures the records of calls without the calls: the round trip of a request and a reply through
/// the library's rings between two processes, with doorbells that are never armed. Each side
/// reserves, fills in the header, copies the arguments or the result into the ring, commits, peeks
/// and releases. The receiver copies the arguments out of the ring. There is no lookup, pending
/// call or handler. The rest of a call's time is the engine and the typed call.
///
/// The constructor forks, so create it before any thread or job is started.
class ring_only final : public floor_probe {
 public:
  ring_only(core_pair cores, std::size_t batches);
  ~ring_only() override;
  ring_only(const ring_only&) = delete;
  ring_only& operator=(const ring_only&) = delete;
  ring_only(ring_only&&) = delete;
  ring_only& operator=(ring_only&&) = delete;

  /// Sets the records of the next measurements, and the round trips in a batch. Records that are
  /// longer than a lane takes are cut to its longest record.
  void use(const call_records& records, std::size_t calls);

  [[nodiscard]] const char* what() const override { return "records of calls, no engine"; }

 private:
  std::vector<double> take_samples() override;

  struct process;
  std::size_t batches_;
  call_records records_;
  std::size_t calls_ = 1000;
  std::unique_ptr<process> echo_;
};

} // namespace farcall::tool
