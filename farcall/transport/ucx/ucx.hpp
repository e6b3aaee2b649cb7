#pragma once

#include <farcall/transport/transport.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// Messages and copies over UCX (openucx.org), by its protocol layer UCP: whatever network or
/// shared memory UCX has between two processes. The job notices dead peers; so does UCX, where what
/// it uses can.
namespace farcall::ucx {

struct options {
  node_id self = 0;
  std::size_t nodes = 1;
  std::uint32_t ring_bytes = 0;
  std::string machine; ///< see card::machine
  std::span<doorbell> doorbells;
  std::vector<memory_window> windows; ///< memory here that peers may copy
};

/// Throws error where UCX cannot be used.
[[nodiscard]] std::unique_ptr<transport> make(options o);

} // namespace farcall::ucx
