// SPDX-License-Identifier: Apache-2.0
#include "circumstances.hpp"
#include "kill.hpp"
#include "session.hpp"
#include "smoke.hpp"

#include <bench/gpu/select_device.hpp>
#include <tools/common/pinning.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include <cuda_runtime_api.h>

namespace farcall::bench {
namespace {

constexpr int skipped = 77;

/// Returns why the device cannot be used; empty if CUDA can use it.
std::string missing_gpu(const options& o) {
  // Load all kernels now: some of our own are first used while workers run.
  (void)::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) return cudaGetErrorString(status);
  if (o.device() >= count) return "this machine has " + std::to_string(count) + " of them";
  gpu::select_device(o.device());
  gpu::wake_device();
  return {};
}

struct group {
  const char* name;
  void (*measure)(session& s);
};
constexpr group groups[] = {
    {"floor", measure_floor}, {"bus", measure_bus},        {"launches", measure_launches},
    {"calls", measure_calls}, {"stages", measure_stages},  {"rates", measure_rates},
    {"grids", measure_grids}, {"copies", measure_copies},  {"lease", measure_idle_timeout},
    {"kill", measure_kill},   {"give-up", measure_give_up}};

int measure(const options& o) {
  report out(o.csv);
  watchdog watch{std::chrono::seconds(o.timeout_s)};
  session s{o, out, watch, cpus_for(o)};
  add_circumstances(out, o, s.cpus);
  tool::pin_this_thread(s.cpus.front());
  int status = EXIT_SUCCESS;
  for (const group& g : groups) {
    if (!o.wants(g.name)) continue;
    try {
      g.measure(s);
    } catch (const std::exception& e) {
      out.add_note(std::string(g.name) + " has failed: " + e.what());
      status = EXIT_FAILURE;
    }
  }
  watch.expect("the end of the process");
  return status;
}

int run(int argc, char** argv) {
  const options o = parse_options({argv + 1, argv + argc});
  if (o.help) {
    std::fputs(help_text(), stdout);
    return EXIT_SUCCESS;
  }
  if (o.is_gpu()) {
    if (const std::string why = missing_gpu(o); !why.empty()) {
      std::printf("farcall_cuda_bench: no GPU for %s: %s\n", o.target.c_str(), why.c_str());
      return skipped;
    }
  }
  switch (o.what) {
  case role::smoke:
    return smoke(o);
  case role::hold:
    return hold_device(o);
  case role::once:
    return call_once(o);
  case role::pin:
    return exit_with_workers(o);
  case role::spin:
    return spin_and_give_up(o);
  default:
    return measure(o);
  }
}

} // namespace
} // namespace farcall::bench

int main(int argc, char** argv) {
  farcall::serve_if_target();
  try {
    return farcall::bench::run(argc, argv);
  } catch (const farcall::bench::usage_error& e) {
    std::fprintf(stderr, "farcall_cuda_bench: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "farcall_cuda_bench: %s\n", e.what());
    return EXIT_FAILURE;
  }
}
