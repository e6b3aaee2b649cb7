// SPDX-License-Identifier: Apache-2.0
#include "circumstances.hpp"

#include <bench/gpu/sampling.hpp>
#include <tools/common/environment.hpp>
#include <tools/common/pinning.hpp>
#include <tools/common/table.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <sstream>

#include <cuda_runtime_api.h>

namespace farcall::bench {
namespace {

using tool::first_line_of;

/// Returns the folder in /sys that describes the device; empty if there is none.
std::string folder_of(int device) {
  std::array<char, 32> bus{};
  if (cudaDeviceGetPCIBusId(bus.data(), bus.size(), device) != cudaSuccess) return {};
  std::string id = bus.data();
  std::transform(id.begin(), id.end(), id.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return "/sys/bus/pci/devices/" + id + '/';
}

/// Parses a list like "0-3,8".
std::vector<int> numbers_in(const std::string& list) {
  std::vector<int> numbers;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) {
    int first = 0;
    int last = 0;
    const auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), first);
    if (status != std::errc{}) continue;
    last = first;
    if (end != part.data() + part.size() && *end == '-')
      std::from_chars(end + 1, part.data() + part.size(), last);
    for (int n = first; n <= last; ++n)
      numbers.push_back(n);
  }
  return numbers;
}

std::string version(int number) {
  return std::to_string(number / 1000) + '.' + std::to_string(number % 1000 / 10);
}

void add_gpu(report& out, int device) {
  cudaDeviceProp p{};
  if (cudaGetDeviceProperties(&p, device) != cudaSuccess) return;
  int clock_khz = 0;
  (void)cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, device);
  out.add_circumstance("gpu", std::string(p.name) + ", sm_" + std::to_string(p.major) +
                                  std::to_string(p.minor) + ", " +
                                  std::to_string(p.multiProcessorCount) + " processors, up to " +
                                  std::to_string(clock_khz / 1000) + " MHz, " +
                                  std::to_string(p.totalGlobalMem >> 20) + " MiB");
  int driver = 0;
  int runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  const std::string kernel_driver = first_line_of("/proc/driver/nvidia/version");
  out.add_circumstance("driver", "CUDA " + version(driver) + ", runtime " + version(runtime) +
                                     (kernel_driver.empty() ? "" : ", " + kernel_driver));
  const std::string folder = folder_of(device);
  const std::string speed = first_line_of(folder + "current_link_speed");
  const std::string node = first_line_of(folder + "numa_node");
  out.add_circumstance("link", speed.empty()
                                   ? "not told by this system"
                                   : speed + " x" + first_line_of(folder + "current_link_width") +
                                         " (at most " + first_line_of(folder + "max_link_speed") +
                                         " x" + first_line_of(folder + "max_link_width") +
                                         "), NUMA node " + node);
}

/// Returns the time of reading the clock, which each sample of a latency includes.
double clock_ns() {
  return summarize(gpu::sample(10'000, [] {})).p50;
}

} // namespace

std::vector<int> cpus_for(const options& o) {
  std::vector<int> cpus = tool::allowed_cpus();
  if (!o.is_gpu()) return cpus;
  const std::vector<int> near = numbers_in(first_line_of(folder_of(o.device()) + "local_cpulist"));
  std::stable_partition(cpus.begin(), cpus.end(), [&near](int cpu) {
    return std::find(near.begin(), near.end(), cpu) != near.end();
  });
  return cpus;
}

void add_circumstances(report& out, const options& o, const std::vector<int>& cpus) {
  const tool::environment env = tool::read_environment();
  out.add_circumstance("target", o.target);
  out.add_circumstance("cpu", env.cpu_model + (env.hypervisor.empty() ? "" : ", virtual machine"));
  out.add_circumstance("system", env.kernel + ", load " + first_line_of("/proc/loadavg"));
  if (o.is_gpu()) add_gpu(out, o.device());
  std::string compilers = env.compiler;
#if defined(CUDART_VERSION)
  compilers += ", CUDA " + version(CUDART_VERSION);
#endif
  out.add_circumstance("compiler", compilers);
  out.add_circumstance("pinning", "host on processor " + std::to_string(cpus.front()) +
                                      (o.is_gpu() ? " and, with several threads, on the next of "
                                                  : ", one worker on the next of ") +
                                      tool::cpu_list_text(cpus));
  out.add_circumstance("samples", std::to_string(o.samples) +
                                      " of a latency; each includes reading the clock, " +
                                      tool::format_time(clock_ns()));
}

} // namespace farcall::bench
