#pragma once

#include <farcall/base/node_id.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/offload/job.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

/// What a layer below adds to the nodes of a job.
namespace farcall::detail {

struct job_state;

/// What one node of a job has of it. Made before the node's first handler runs; lasts as long as
/// the job there. Any thread.
class job_service {
 public:
  job_service() = default;
  job_service(const job_service&) = delete;
  job_service& operator=(const job_service&) = delete;
  virtual ~job_service() = default;

  /// Host: what its targets are told, at most 4,096 bytes.
  [[nodiscard]] virtual std::string for_targets() const { return {}; }
  /// Host: a target has ended. Does not block.
  virtual void node_ended(node_id /*node*/) noexcept {}
  /// Target: an open file of the host's, which it has asked for by this number. Does not block.
  virtual void take_file(std::uint64_t /*number*/, unique_fd /*file*/) noexcept {}
  /// Target: its last handler has ended, and the host still takes calls. May block for these.
  virtual void finish() noexcept {}
};

/// Who makes it; null where the job does not ask for it.
struct job_service_entry {
  /// Throws setting_error, before any target is started.
  std::shared_ptr<job_service> (*on_host)(const job_options& options);
  /// Target, before it joins a job that has the service; `scheme` is of the transport to the host.
  /// What it throws keeps the target from joining.
  void (*check_target)(std::string_view scheme);
  /// `told` is what for_targets() gave; not empty. What it throws keeps the target from joining.
  std::shared_ptr<job_service> (*on_target)(job_state& job, const std::string& told);
};

/// The one that there is: files. Defined where the layers come together (farcall/services.cpp).
[[nodiscard]] const job_service_entry& service_entry() noexcept;

} // namespace farcall::detail
