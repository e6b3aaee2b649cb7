// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/offload/job.hpp>

#include <cstdint>
#include <memory>
#include <string>

/// Interface by which a layer above this one extends a job. The only extension is the access to
/// files of the host (host files).
namespace farcall::detail {

struct job_state;

/// The part of an extension that runs on one node of a job. It is made before the node's first
/// handler runs, and exists as long as the job on this node. Any thread may use it.
class job_service {
 public:
  job_service() = default;
  job_service(const job_service&) = delete;
  job_service& operator=(const job_service&) = delete;
  virtual ~job_service() = default;

  /// On the host: returns the text that the host sends to the target's part, at most 4,096 bytes.
  /// Returns an empty text if targets need no part of their own.
  [[nodiscard]] virtual std::string for_targets() const { return {}; }
  /// On the host: handles the end of a target. Must not block.
  virtual void node_ended(node_id /*node*/) noexcept {}
  /// On a target: called when this node can call others, and before its first handler runs. May
  /// make calls and wait for them. If it throws, the target ends, and the host learns why.
  virtual void begin() {}
  /// On a target: takes an open file of the host. `number` is the number with which this service
  /// has requested the file. Must not block.
  virtual void take_file(std::uint64_t /*number*/, unique_fd /*file*/) noexcept {}
  /// On a target: called after the last handler of the target has ended, while the host still takes
  /// calls. May make calls and wait for them.
  virtual void finish() noexcept {}
};

/// Functions that make the parts of an extension on the nodes of a job.
struct job_service_entry {
  /// Makes the host's part. Returns null if the options do not ask for this extension. It is called
  /// before any target is started. Throws setting_error.
  std::shared_ptr<job_service> (*on_host)(const job_options& options);
  /// Throws an exception if this target cannot use the extension; the target then does not join. It
  /// is called before the target joins. `is_near` is true if the host is on this machine, and maps
  /// the target's memory.
  void (*check_target)(bool is_near);
  /// Makes a target's part. `told` is the text that for_targets() has returned on the host; it is
  /// never empty. If this function throws, the target does not join.
  std::shared_ptr<job_service> (*on_target)(job_state& job, const std::string& told);
};

/// Returns the functions of the only extension, host files. This function is defined above all
/// layers, in farcall/services.cpp.
[[nodiscard]] const job_service_entry& service_entry() noexcept;

} // namespace farcall::detail
