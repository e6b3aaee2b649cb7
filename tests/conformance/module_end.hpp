// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/memory/segment.hpp>
#include <farcall/transport/transport_entry.hpp>
#include <tests/conformance/conformance.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>

namespace farcall::conformance {

/// Loads a module as a program does, and returns its entry of the transport table.
[[nodiscard]] transport_entry load_module(const char* file);

/// A node of a transport that copies windows and shares no memory. In place of a job's event loop,
/// a thread calls the transport's progress() when its wait descriptor is readable.
class module_end final : public node_end {
 public:
  /// `group` is for transports that need the process's place in its process group.
  module_end(const transport_entry& row, node_id id, std::uint32_t ring_bytes,
             std::optional<group_place> group = {});
  ~module_end() override;
  module_end(const module_end&) = delete;
  module_end& operator=(const module_end&) = delete;

  node_id id() const override { return id_; }
  /// Makes the transport in the first call, after the fork: UCX and MPI do not work in a child of a
  /// process that uses them.
  transport& link() override;
  bool has_rma_engine() override { return true; }
  bool shares_memory() override { return false; }
  std::span<doorbell> doorbells() override { return doorbells_; }
  std::span<std::byte> window() override { return {window_.data(), window_.size()}; }
  /// Starts the thread, after the fork: a fork beside a thread can copy a lock that it holds.
  void meet(const card& peer) override;

 private:
  void run();

  const transport_entry* row_;
  node_id id_;
  std::uint32_t ring_bytes_;
  std::optional<group_place> group_;
  segment window_;
  unique_fd stop_;
  std::array<doorbell, 8> doorbells_;
  std::unique_ptr<transport> transport_;
  std::thread thread_;
};

} // namespace farcall::conformance
