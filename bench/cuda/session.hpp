// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "options.hpp"
#include "report.hpp"
#include "watchdog.hpp"

#include <bench/gpu/sampling.hpp>
#include <tools/common/pinning.hpp>

#include <farcall/gpu/gpu.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace farcall::bench {

/// A job of one device, which the watchdog asks for a diagnosis.
class watched_job {
 public:
  watched_job(const std::string& url, watchdog& watch);
  watched_job(const watched_job&) = delete;
  watched_job& operator=(const watched_job&) = delete;
  ~watched_job();
  [[nodiscard]] node device() const { return job_.targets().front(); }
  /// Prints the state of the device on standard error.
  void diagnose() const;

 private:
  watchdog* watch_;
  job job_;
};

/// Calls `What`, and tells the watchdog of each call.
template <class What>
struct watched {
  std::remove_reference_t<What>* what;
  watchdog* watch;
  void operator()() const {
    (*what)();
    watch->tick();
  }
};

struct latency_options {
  std::size_t samples = 0;  ///< 0 for as many as the options say
  std::string against = {}; ///< figure that it is compared with, or empty
  row_kind kind = row_kind::call;
};

/// State that the groups of figures share. Each group starts its own job, so that a failure in one
/// does not affect another.
struct session {
  const options& asked;
  report& out;
  watchdog& watch;
  std::vector<int> cpus; ///< usable processors, those near the GPU first; the measuring thread is
                         ///< bound to the first

  [[nodiscard]] bool is_gpu() const { return asked.is_gpu(); }

  /// Starts a job of the device with so many workers.
  [[nodiscard]] watched_job start(std::size_t workers) const;

  /// Measures and adds a latency.
  template <class What>
  void latency(const std::string& name, What&& what, const latency_options& how = {}) {
    const std::size_t samples = how.samples != 0 ? how.samples : asked.samples;
    watch.expect(name);
    out.add({.what = name,
             .unit = "ns",
             .value = summarize(gpu::sample(samples, watched<What>{&what, &watch})),
             .kind = how.kind,
             .against = how.against});
  }
};

/// Timeout of the first call, so that a device that does not reply is an error of one group only.
inline constexpr std::chrono::seconds first_call_timeout{20};

void measure_floor(session& s);
void measure_bus(session& s);
void measure_launches(session& s);
void measure_calls(session& s);
void measure_stages(session& s);
void measure_rates(session& s);
void measure_grids(session& s);
void measure_copies(session& s);
void measure_idle_timeout(session& s);
void measure_kill(session& s);
void measure_give_up(session& s);

} // namespace farcall::bench
