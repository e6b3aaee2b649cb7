#include "goals.hpp"

#include <cstdio>
#include <string>

namespace farcall::bench {
namespace {

double p50_of(const report& out, const char* what) {
  const row* r = out.find(what);
  return r == nullptr ? 0 : r->value.p50;
}

double ratio_of(const report& out, const char* what) {
  const row* r = out.find(what);
  return r == nullptr ? 0 : r->ratio;
}

void at_most(const char* what, double value, double goal, const char* unit = "") {
  if (value == 0) return;
  std::printf("  %-44s %8.3f%s, goal <= %g%s: %s\n", what, value, unit, goal, unit,
              value <= goal ? "reached" : "MISSED");
}

void at_least(const char* what, double value, double goal, const char* unit = "") {
  if (value == 0) return;
  std::printf("  %-44s %8.3f%s, goal >= %g%s: %s\n", what, value, unit, goal, unit,
              value >= goal ? "reached" : "MISSED");
}

} // namespace

void print_goals(const report& out, bool is_gpu) {
  std::printf("\ngoals\n");
  const double empty = p50_of(out, "empty call, fc::pure_fn");
  if (const row* const floor = out.floor()) {
    at_most(("empty call / " + floor->what).c_str(), empty / floor->value.p50, is_gpu ? 1.5 : 1.25);
  }
  if (!is_gpu) return;
  at_most("empty call", empty / 1000, 2.0, " us");
  if (const row* const launch = out.best_launch()) {
    at_most(("empty call / " + launch->what).c_str(), empty / launch->value.p50, 0.5);
  }
  if (empty != 0) {
    at_most("64 B each way / empty call", p50_of(out, "call, 64 B each way") / empty, 1.3);
    at_most("256 B each way / empty call", p50_of(out, "call, 256 B each way") / empty, 2);
  }
  at_most("call, 1 KiB each way", p50_of(out, "call, 1024 B each way") / 1000, 4, " us");
  at_least("calls per second, 8 workers", p50_of(out, "8 threads, 8 workers, window 256") / 1e6, 2,
           " M");
  at_least("put, pinned / cudaMemcpyAsync", ratio_of(out, "put pinned, 256 MiB"), 0.98);
  at_least("get, pinned / cudaMemcpyAsync", ratio_of(out, "get pinned, 256 MiB"), 0.98);
  at_least("put, pageable / cudaMemcpy", ratio_of(out, "put pageable, 256 MiB"), 1.2);
  at_least("get, pageable / cudaMemcpy", ratio_of(out, "get pageable, 256 MiB"), 1.2);
  at_most("bandwidth kernel beside 8 idle workers",
          ratio_of(out, "bandwidth kernel, 8 idle workers"), 1.02);
}

} // namespace farcall::bench
