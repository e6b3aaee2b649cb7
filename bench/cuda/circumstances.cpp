#include "circumstances.hpp"
#include "pinning.hpp"

#include <bench/gpu/sampling.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <fstream>
#include <sstream>

#include <cuda_runtime_api.h>
#include <sys/utsname.h>

namespace farcall::bench {
namespace {

std::string first_line(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string after_colon(const std::string& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t at = line.find_first_not_of(" \t", line.find(':') + 1);
    return at == std::string::npos ? std::string() : line.substr(at);
  }
  return {};
}

/// Where the kernel tells about the device; empty when it does not.
std::string folder_of(int device) {
  std::array<char, 32> bus{};
  if (cudaDeviceGetPCIBusId(bus.data(), bus.size(), device) != cudaSuccess) return {};
  std::string id = bus.data();
  std::transform(id.begin(), id.end(), id.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return "/sys/bus/pci/devices/" + id + '/';
}

/// "0-3,8" in numbers.
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

std::string text_of(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size() && i < 16; ++i)
    text += (i == 0 ? "" : ",") + std::to_string(numbers[i]);
  return text + (numbers.size() > 16 ? ",..." : "");
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
  const std::string kernel_driver = first_line("/proc/driver/nvidia/version");
  out.add_circumstance("driver", "CUDA " + version(driver) + ", runtime " + version(runtime) +
                                     (kernel_driver.empty() ? "" : ", " + kernel_driver));
  const std::string folder = folder_of(device);
  const std::string speed = first_line(folder + "current_link_speed");
  const std::string node = first_line(folder + "numa_node");
  out.add_circumstance(
      "link", speed.empty() ? "not told by this system"
                            : speed + " x" + first_line(folder + "current_link_width") +
                                  " (at most " + first_line(folder + "max_link_speed") + " x" +
                                  first_line(folder + "max_link_width") + "), NUMA node " + node);
}

/// In each sample of a latency.
double clock_ns() {
  return summarize(gpu::sample(10'000, [] {})).p50;
}

} // namespace

std::vector<int> cpus_for(const options& o) {
  std::vector<int> cpus = allowed_cpus();
  if (!o.is_gpu()) return cpus;
  const std::vector<int> near = numbers_in(first_line(folder_of(o.device()) + "local_cpulist"));
  std::stable_partition(cpus.begin(), cpus.end(), [&near](int cpu) {
    return std::find(near.begin(), near.end(), cpu) != near.end();
  });
  return cpus;
}

void add_circumstances(report& out, const options& o, const std::vector<int>& cpus) {
  utsname system{};
  (void)::uname(&system);
  const std::string cpu = after_colon("/proc/cpuinfo", "model name");
  const std::string flags = after_colon("/proc/cpuinfo", "flags");
  const bool is_virtual = (' ' + flags + ' ').find(" hypervisor ") != std::string::npos;
  out.add_circumstance("target", o.target);
  out.add_circumstance("cpu", (cpu.empty() ? std::string(system.machine) : cpu) +
                                  (is_virtual ? ", virtual machine" : ""));
  out.add_circumstance("system", std::string(system.sysname) + ' ' + system.release + ", load " +
                                     first_line("/proc/loadavg"));
  if (o.is_gpu()) add_gpu(out, o.device());
#if defined(__VERSION__)
  std::string compilers = "g++ " __VERSION__;
#else
  std::string compilers = "unknown";
#endif
#if defined(CUDART_VERSION)
  compilers += ", CUDA " + version(CUDART_VERSION);
#endif
  out.add_circumstance("compiler", compilers);
  out.add_circumstance("pinning", "host on processor " + std::to_string(cpus.front()) +
                                      (o.is_gpu() ? " and, with several threads, on the next of "
                                                  : ", one worker on the next of ") +
                                      text_of(cpus));
  out.add_circumstance("samples", std::to_string(o.samples) +
                                      " of a latency; each includes reading the clock, " +
                                      text_of_ns(clock_ns()));
}

} // namespace farcall::bench
