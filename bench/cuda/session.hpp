#pragma once

#include "options.hpp"
#include "report.hpp"

#include <bench/gpu/sampling.hpp>
#include <tools/common/pinning.hpp>

#include <farcall/gpu/gpu.hpp>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace farcall::bench {

/// What the groups of figures share. Each makes a job of its own, so that none suffers from what
/// went wrong in another.
struct session {
  const options& asked;
  report& out;
  std::vector<int>
      cpus; ///< that may be used; near the GPU. The measuring thread is bound to the first

  [[nodiscard]] bool is_gpu() const { return asked.is_gpu(); }

  /// A device with so many workers.
  [[nodiscard]] job start(std::size_t workers) const {
    std::string url = with_option(asked.target, "workers", workers);
    // Threads that emulate are bound, too, as far as processors go round.
    if (!is_gpu() && workers == 1 && cpus.size() > 1)
      url = with_option(url, "cpu", static_cast<std::size_t>(cpus[1]));
    const tool::scoped_pin threads(cpus);
    return job(job_options{.targets = url});
  }

  struct latency_options {
    std::size_t samples = 0;  ///< 0: as many as were asked for
    std::string against = ""; ///< figure that it is compared with, if there is one
  };
  /// Adds a latency. Returns its median.
  template <class What>
  double latency(const std::string& name, What&& what, const latency_options& how = {}) {
    const std::size_t samples = how.samples != 0 ? how.samples : asked.samples;
    row r{.what = name,
          .unit = "ns",
          .value = summarize(gpu::sample(samples, std::forward<What>(what))),
          .is_call = true};
    if (const row* other = out.find(how.against)) {
      r.ratio = r.value.p50 / other->value.p50;
      r.against = how.against;
    }
    return out.add(std::move(r)).value.p50;
  }
};

/// A first call that does not come back is an error, and not the end of all figures.
inline constexpr std::chrono::seconds first_call_timeout{20};

void measure_floor(session& s);
void measure_launches(session& s);
void measure_calls(session& s);
void measure_rates(session& s);
void measure_grids(session& s);
void measure_copies(session& s);
void measure_lease(session& s);
void measure_kill(session& s);

} // namespace farcall::bench
