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

/// The row of a module, which is loaded as a program would.
[[nodiscard]] transport_entry load_module(const char* file);

/// A node of a transport that copies windows and shares no memory, with a thread that does what a
/// job's would: it has the transport move bytes when its descriptor says so.
class module_end final : public node_end {
 public:
  /// `group` is for transports that need to know what the processes were started as.
  module_end(const transport_entry& row, node_id id, std::uint32_t ring_bytes,
             std::optional<group_place> group = {});
  ~module_end() override;
  module_end(const module_end&) = delete;
  module_end& operator=(const module_end&) = delete;

  node_id id() const override { return id_; }
  /// Makes it, not before: neither UCX nor MPI can be used in a child of a process that uses it.
  transport& link() override;
  bool has_rma_engine() override { return true; }
  bool shares_memory() override { return false; }
  std::span<doorbell> doorbells() override { return doorbells_; }
  std::span<std::byte> window() override { return {window_.data(), window_.size()}; }
  /// Only now is there a thread, as for pipes.
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
