#pragma once

#include <farcall/am/engine.hpp>
#include <farcall/call/directory.hpp>
#include <farcall/job/membership.hpp>
#include <farcall/offload/copier.hpp>
#include <farcall/offload/node.hpp>

#include <cstdint>
#include <memory>

namespace farcall::detail {

/// Everything that a job is made of in one process. Handles of users point here.
struct job_state {
  std::uint32_t serial = next_serial();
  std::unique_ptr<membership> members;
  call_context context;
  std::shared_ptr<am::engine> engine;
  std::unique_ptr<directory> functions;
  copier copies;

  /// The host waits for copies and targets to finish, at most for the stop timeout each; then
  /// whatever is left ends.
  ~job_state();

 private:
  [[nodiscard]] static std::uint32_t next_serial() noexcept;
};

/// The job of the handler that runs, or the only one of the process. Throws error otherwise.
[[nodiscard]] job_state& current_job();

} // namespace farcall::detail
