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

/// A job of one device, which the watchdog is to ask what it is at.
class watched_job {
 public:
  watched_job(const std::string& url, watchdog& watch);
  watched_job(const watched_job&) = delete;
  watched_job& operator=(const watched_job&) = delete;
  ~watched_job();
  [[nodiscard]] node device() const { return job_.targets().front(); }
  /// Says on standard error what the device is at.
  void diagnose() const;

 private:
  watchdog* watch_;
  job job_;
};

/// Tells the watchdog of each call of `What`.
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
  std::size_t samples = 0;  ///< 0: as many as were asked for
  std::string against = {}; ///< figure that it is compared with, if there is one
  row_kind kind = row_kind::call;
};

/// What the groups of figures share. Each makes a job of its own, so that none suffers from what
/// went wrong in another.
struct session {
  const options& asked;
  report& out;
  watchdog& watch;
  std::vector<int>
      cpus; ///< that may be used; near the GPU. The measuring thread is bound to the first

  [[nodiscard]] bool is_gpu() const { return asked.is_gpu(); }

  /// A device with so many workers.
  [[nodiscard]] watched_job start(std::size_t workers) const;

  /// Adds a latency. Returns its median.
  template <class What>
  double latency(const std::string& name, What&& what, const latency_options& how = {}) {
    const std::size_t samples = how.samples != 0 ? how.samples : asked.samples;
    watch.expect(name);
    row r{.what = name,
          .unit = "ns",
          .value = summarize(gpu::sample(samples, watched<What>{&what, &watch})),
          .kind = how.kind};
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
void measure_bus(session& s);
void measure_launches(session& s);
void measure_calls(session& s);
void measure_stages(session& s);
void measure_rates(session& s);
void measure_grids(session& s);
void measure_copies(session& s);
void measure_lease(session& s);
void measure_kill(session& s);
void measure_give_up(session& s);

} // namespace farcall::bench
