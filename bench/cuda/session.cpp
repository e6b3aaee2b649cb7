// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include <farcall/gpu/make_device.hpp>
#include <farcall/offload/job_state.hpp>

#include <cstdio>

namespace farcall::bench {
namespace {

/// Timeout of a start: code is loaded, and the driver may have to wake up. The job itself reports
/// workers that do not start within 10 s as an error.
constexpr std::chrono::seconds start_time{13};

/// Tells the watchdog of the job before it starts.
std::string expected(const std::string& url, watchdog& watch) {
  watch.expect("a job of " + url, start_time);
  return url;
}

cuda::cuda_transport* transport_of(const node& device) {
  return detail::device_of(*detail::state_of(*device.job()).members, device.id());
}

} // namespace

watched_job::watched_job(const std::string& url, watchdog& watch)
    : watch_(&watch), job_(job_options{.targets = expected(url, watch)}) {
  watch.ask([t = transport_of(device())](const watchdog::say& say) { t->diagnose(say); });
  watch.expect("the first call");
}

watched_job::~watched_job() {
  watch_->expect("the end of the job");
  watch_->ask({});
}

void watched_job::diagnose() const {
  transport_of(device())->diagnose(
      [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
}

watched_job session::start(std::size_t workers) const {
  std::string url = with_option(asked.target, "workers", workers);
  // Bind emulated workers, too, if there are enough processors.
  if (!is_gpu() && workers == 1 && cpus.size() > 1)
    url = with_option(url, "cpu", static_cast<std::size_t>(cpus[1]));
  const tool::scoped_pin threads(cpus);
  return watched_job(url, watch);
}

} // namespace farcall::bench
